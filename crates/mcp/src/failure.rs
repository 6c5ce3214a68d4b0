//! Failures of this edge, and their translation to the port's errors.

use std::time::Duration;

use domain::clean::clean;
use domain::tool::{CallError, CallErrorKind, ServerName};
use ports::tools::{ConnectError, ConnectErrorKind};

/// The longest failure message, in bytes.
pub(super) const MESSAGE_MAX: usize = 400;

/// The reason for a missing answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("the program {0} does not exist")]
    CommandNotFound(String),
    /// The program cannot be started, for this reason.
    #[error("{0}")]
    NotStarted(String),
    /// The program exited, with this last output.
    #[error("the program ended: {0}")]
    Exited(String),
    /// The connection broke.
    #[error("the connection is lost: {0}")]
    Lost(String),
    /// The address is invalid or not allowed.
    #[error("{0}")]
    Address(String),
    /// No server answers at the address.
    #[error("nothing answers: {0}")]
    Unreachable(String),
    /// A redirect, which is not followed.
    #[error("it redirects to {0}")]
    Redirected(String),
    #[error("it answers with HTTP {status}{}", if detail.is_empty() { String::new() } else { format!(": {detail}") })]
    Status {
        status: u16,
        /// The retry delay, if the server sent one.
        retry_after: Option<Duration>,
        /// The beginning of the body on one line; may be empty.
        detail: String,
    },
    /// The login lacks the scopes that the request needs (RFC 6750, 3.1).
    #[error("its login needs the scope {0}")]
    Scope(String),
    /// The server no longer has the session.
    #[error("the session is lost")]
    SessionLost,
    #[error("{message} (code {code})")]
    Rpc {
        /// The JSON-RPC code.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// No common protocol revision; contains those that the server names.
    #[error("it supports other revisions of the protocol: {}", .0.join(", "))]
    Versions(Vec<String>),
    /// The received data violates the protocol.
    #[error("{0}")]
    Malformed(String),
    #[error("the answer of {0} bytes is too large")]
    TooLarge(u64),
    /// The memory budget was used up by other large replies.
    #[error("there was no memory for its reply of {0} bytes beside other large replies; request less, or later")]
    Crowded(u64),
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The process was not ready in time and made no progress at the end.
    #[error("its process was not ready after {} s", .0.as_secs())]
    SlowStart(Duration),
}

impl Failure {
    /// Converts the failure of a call.
    pub(super) fn of_call(&self, server: &ServerName) -> CallError {
        let kind = match self {
            Self::CommandNotFound(_) | Self::NotStarted(_) | Self::Address(_) | Self::Unreachable(_) => {
                CallErrorKind::Unavailable
            }
            Self::Exited(_) | Self::Lost(_) | Self::SessionLost => CallErrorKind::Lost,
            Self::Redirected(_) => CallErrorKind::Unavailable,
            Self::Scope(_) => CallErrorKind::Forbidden,
            Self::Status { status, .. } => match status {
                401 => CallErrorKind::Unauthorized,
                403 => CallErrorKind::Forbidden,
                404 | 405 | 410 => CallErrorKind::NotFound,
                413 => CallErrorKind::TooLarge,
                429 => CallErrorKind::RateLimited,
                400 | 422 => CallErrorKind::InvalidArguments,
                _ => CallErrorKind::Failed,
            },
            // The JSON-RPC and MCP codes for an unknown method, tool or resource, and for invalid arguments.
            Self::Rpc { code: -32601 | -32002, .. } => CallErrorKind::NotFound,
            Self::Rpc { code: -32602, .. } => CallErrorKind::InvalidArguments,
            Self::Rpc { .. } => CallErrorKind::Failed,
            Self::Malformed(_) | Self::Versions(_) => CallErrorKind::Malformed,
            Self::TooLarge(_) | Self::Crowded(_) => CallErrorKind::TooLarge,
            Self::Timeout(_) | Self::SlowStart(_) => CallErrorKind::Timeout,
        };
        let retry_after = match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let fix = match self {
            Self::Scope(scope) => format!("; run `staffai mcp login {server} --scope '{scope}'`"),
            Self::Status { status: 401, .. } => {
                format!("; if a login is required, run `staffai mcp login {server}`")
            }
            _ => String::new(),
        };
        let said = one_line(&format!("{server}: {self}"), MESSAGE_MAX);
        CallError { retry_after, ..CallError::new(kind, format!("{said}{fix}")) }
    }

    /// Converts the failure of a connection.
    pub(super) fn of_connect(&self) -> ConnectError {
        use ConnectErrorKind as Kind;
        let (kind, fix) = match self {
            Self::CommandNotFound(_) => (Kind::CommandNotFound, "install it, or set command to its full path"),
            Self::NotStarted(_) => (Kind::NotStarted, "correct command and cwd of its entry"),
            Self::Exited(_) => {
                (Kind::Exited, "correct args and env of its entry; the server receives no other variables")
            }
            Self::Address(_) => (Kind::InvalidAddress, "correct url of its entry"),
            Self::Unreachable(_) => (Kind::Unreachable, "start the server, or correct host and port of url"),
            Self::Redirected(_) => (Kind::Redirected, "if you trust the address that it redirects to, set url to it"),
            Self::Status { status: 401, .. } => (
                Kind::Unauthorized,
                "correct the key in headers or authorization; if a login is required, run `staffai mcp login` with its name, or add it with --login",
            ),
            Self::Scope(_) => (Kind::Forbidden, "run `staffai mcp login` with its name and that --scope"),
            Self::Status { status: 403, .. } => {
                (Kind::Forbidden, "the key lacks the permission: request it from the server's operator")
            }
            Self::Status { status: 404 | 405 | 410, .. } => {
                (Kind::NotFound, "correct the path of url, often /mcp or /sse")
            }
            Self::Status { status: 429, .. } => (Kind::RateLimited, "wait"),
            Self::Status { status: 500.., .. } => (Kind::Failed, "the server failed: see its log"),
            Self::Lost(_) | Self::SessionLost => (Kind::NotMcp, "see the server's own log"),
            Self::Status { .. } | Self::Rpc { .. } | Self::Malformed(_) | Self::Versions(_) | Self::TooLarge(_) => {
                (Kind::NotMcp, "correct url or command: this server does not speak MCP in this way")
            }
            Self::Crowded(_) => (Kind::Failed, "wait for the next retry"),
            Self::Timeout(_) => (Kind::Timeout, "check that the server is running, and see its log"),
            Self::SlowStart(_) => {
                (Kind::Timeout, "run its command by hand to see why it is slow, or raise start_timeout of its entry")
            }
        };
        ConnectError { kind, message: one_line(&self.to_string(), MESSAGE_MAX), fix: fix.to_owned() }
    }
}

/// Reduces foreign text to one harmless line of at most `most` bytes, without characters that people cannot see.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::with_capacity(text.len().min(most));
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if line.len() >= most {
            break;
        }
        let word = clean(word, most);
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    line.truncate(line.floor_char_boundary(most));
    line
}

/// Returns an address without credentials, query and fragment.
pub(super) fn place_of(url: &reqwest::Url) -> String {
    one_line(&format!("{}{}", url.origin().ascii_serialization(), url.path()), 200)
}

/// Returns the root cause of an error, without the address.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    one_line(&cause.to_string(), MESSAGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        let kind = |status| {
            let failure = Failure::Status { status, retry_after: None, detail: String::new() };
            (failure.of_connect().kind, failure.of_call(&ServerName::new("s")).kind)
        };
        assert_eq!(kind(401), (ConnectErrorKind::Unauthorized, CallErrorKind::Unauthorized));
        assert_eq!(kind(403), (ConnectErrorKind::Forbidden, CallErrorKind::Forbidden));
        assert_eq!(kind(404), (ConnectErrorKind::NotFound, CallErrorKind::NotFound));
        assert_eq!(kind(429), (ConnectErrorKind::RateLimited, CallErrorKind::RateLimited));
        assert_eq!(kind(503), (ConnectErrorKind::Failed, CallErrorKind::Failed));
        assert_eq!(kind(418), (ConnectErrorKind::NotMcp, CallErrorKind::Failed));
    }

    #[test]
    fn a_login_that_lacks_a_scope_is_mended_by_a_command() {
        let failure = Failure::Scope("files:write".to_owned()).of_call(&ServerName::new("drive"));
        assert_eq!(failure.kind, CallErrorKind::Forbidden);
        assert!(failure.message.contains("run `staffai mcp login drive --scope 'files:write'`"), "{failure}");
        let failure = Failure::Status { status: 401, retry_after: None, detail: String::new() };
        assert!(failure.of_call(&ServerName::new("drive")).message.contains("`staffai mcp login drive`"));
    }

    #[test]
    fn an_address_is_told_with_its_path_and_without_what_may_be_secret() {
        let url = reqwest::Url::parse("https://me:key@host.example:8443/v2/mcp?token=abc#x").unwrap();
        assert_eq!(place_of(&url), "https://host.example:8443/v2/mcp");
    }

    #[test]
    fn words_from_outside_become_one_line() {
        assert_eq!(one_line("a\n\tb\u{1b}[31m  c", 100), "a b [31m c");
        assert_eq!(one_line(&"ä".repeat(100), 11), "äääää");
        assert_eq!(one_line("s1 \u{202e}\u{200b} te\u{ad}xt\u{e0041}\u{2028}end", 100), "s1 text end");
    }
}
