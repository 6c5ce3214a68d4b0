//! Events of tool servers.

use std::time::Duration;

use crate::tool::server::ServerStatus;

/// A change of one tool server, or the end of a request to it.
#[derive(Debug, Clone, Copy)]
pub enum ServerChange<'a> {
    /// Its actor started and connects for the first time.
    Begun,
    /// Its state, or the reason for it, changed.
    Changed {
        /// The state before.
        from: &'a ServerStatus,
        /// The state now.
        to: &'a ServerStatus,
    },
    /// Its configuration entry has this mistake.
    Unusable(&'a str),
    /// Its list was read and has this number of tools.
    Listed(usize),
    /// Its list has this oddity. Reported at a limited rate.
    ListOdd(&'a str),
    /// Its list could not be read, for this reason. Reported at a limited rate.
    ListUnread(&'a str),
    /// A request to it ended.
    Requested {
        /// The request.
        request: ServerRequest<'a>,
        /// The label of the error; `None` if it succeeded.
        error: Option<&'static str>,
        /// The duration.
        took: Duration,
    },
}

/// A request to a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerRequest<'a> {
    /// Opens the connection.
    Initialize,
    /// Reads the list of tools.
    List,
    /// Calls the tool with this name.
    Call(&'a str),
    /// Tests the connection.
    Ping,
}

impl ServerRequest<'_> {
    /// Returns the method name of the Model Context Protocol.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::List => "tools/list",
            Self::Call(_) => "tools/call",
            Self::Ping => "ping",
        }
    }
}
