//! The configured tool servers, as commands of the program try them: side by side, each within its own bound.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::actors::mcp::{self, Fresh};
use crate::mcp::McpServers;
use crate::mcp::oauth::Logins;
use crate::ports::tools::ServerEntry;

/// What came of trying one server.
pub(super) struct Tried {
    /// Its entry.
    pub entry: ServerEntry,
    /// The server and its tools, or what is wrong and the fix.
    pub outcome: Result<Fresh, String>,
    /// How long that took.
    pub took: Duration,
}

/// Connects to each server, with these logins, and reads its tools.
pub(super) async fn try_all(entries: &[ServerEntry], logins: &Logins) -> Vec<Tried> {
    join_all(entries.iter().map(|entry| try_one(entry, Some(logins)))).await
}

/// The same for one server.
pub(super) async fn try_one(entry: &ServerEntry, logins: Option<&Logins>) -> Tried {
    let begun = Instant::now();
    let servers = McpServers { logins: logins.cloned(), ..McpServers::guarded() };
    let outcome = mcp::connect(&servers, entry).await;
    Tried { entry: entry.clone(), outcome, took: begun.elapsed() }
}

/// Ends the sessions in order.
pub(super) async fn close(tried: &[Tried]) {
    join_all(tried.iter().filter_map(|tried| tried.outcome.as_ref().ok()).map(|(server, _)| server.close())).await;
}
