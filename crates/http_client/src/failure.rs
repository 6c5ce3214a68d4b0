//! The reasons why an exchange failed.

use std::error::Error;
use std::{fmt, io};

use hyper_util::client::legacy;

/// The reason why there is no complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The innermost cause as text. It names no header; a certificate error may name the host.
    pub cause: String,
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection was established; the request was not sent.
    Connect,
    /// The system closed an unresponsive connection.
    TimedOut,
    /// The connection broke, or the response is not HTTP.
    Broken,
}

/// No connection was established in time.
#[derive(Debug)]
pub(super) struct ConnectTimeout;

impl fmt::Display for ConnectTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation timed out")
    }
}

impl Error for ConnectTimeout {}

impl Failure {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let (mut kind, mut cause) = (FailureKind::Broken, error);
        loop {
            if cause.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect) {
                kind = FailureKind::Connect;
            }
            let silent = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout)
                || cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
            if silent && kind == FailureKind::Broken {
                kind = FailureKind::TimedOut;
            }
            let Some(inner) = cause.source() else { break };
            cause = inner;
        }
        Self { kind, cause: cause.to_string() }
    }
}
