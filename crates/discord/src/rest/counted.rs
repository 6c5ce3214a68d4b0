//! Counts responses by status.

use std::fmt;
use std::sync::OnceLock;

use http::StatusCode;
use telemetry::metrics::DISCORD_REQUESTS_TOTAL;

/// Counters of the usual statuses, looked up once.
#[derive(Default)]
pub(super) struct Fine {
    ok: OnceLock<metrics::Counter>,
    no_content: OnceLock<metrics::Counter>,
}

impl fmt::Debug for Fine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fine")
    }
}

impl Fine {
    /// Counts a request with this status, or without a response.
    pub(super) fn count(&self, status: Option<StatusCode>) {
        let counter = |label: &str| metrics::counter!(DISCORD_REQUESTS_TOTAL, "status" => label.to_owned());
        match status {
            Some(StatusCode::OK) => self.ok.get_or_init(|| counter("200")).increment(1),
            Some(StatusCode::NO_CONTENT) => self.no_content.get_or_init(|| counter("204")).increment(1),
            Some(status) => counter(status.as_str()).increment(1),
            None => counter("none").increment(1),
        }
    }
}
