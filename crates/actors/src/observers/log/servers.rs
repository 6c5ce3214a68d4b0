//! Log lines about tool servers.

use domain::happening::{ServerChange, ServerRequest};
use domain::tool::ServerName;
use domain::tool::server::ServerStatus;
use telemetry::events as names;

pub(super) fn changed(server: &ServerName, change: ServerChange<'_>) {
    match change {
        ServerChange::Changed { from, to } => moved(server, from, to),
        ServerChange::Unusable(mistake) => {
            let (from, to) = (ServerStatus::Starting, ServerStatus::Stopped(String::new()));
            tracing::warn!(
                event = names::MCP_STATE, %server, from = from.as_str(), to = to.as_str(), reason = mistake,
                "the entry of a tool server is wrong"
            );
        }
        ServerChange::Listed(tools) => {
            tracing::debug!(event = names::MCP_LISTED, %server, tools, "the list of tools was read");
        }
        ServerChange::ListOdd(warning) => {
            tracing::warn!(event = names::MCP_LISTED, %server, warning, "the list of tools is odd");
        }
        ServerChange::ListUnread(reason) => {
            tracing::warn!(event = names::MCP_LISTED, %server, reason, "the list of tools cannot be read; the last one stays");
        }
        ServerChange::Requested { request: ServerRequest::Call(tool), error: Some(error), .. } => {
            tracing::debug!(%server, tool, kind = error, "a call failed");
        }
        ServerChange::Begun | ServerChange::Requested { .. } => {}
    }
}

fn moved(server: &ServerName, from: &ServerStatus, to: &ServerStatus) {
    let (old, new, reason) = (from.as_str(), to.as_str(), to.reason());
    // A repetition of the same failure is not a change of state.
    if old == new {
        tracing::debug!(event = names::MCP_STATE, %server, from = old, to = new, reason, "tool server");
    } else if matches!(to, ServerStatus::Degraded(_) | ServerStatus::Open(_)) {
        tracing::warn!(event = names::MCP_STATE, %server, from = old, to = new, reason, "tool server");
    } else {
        tracing::info!(event = names::MCP_STATE, %server, from = old, to = new, reason, "tool server");
    }
}
