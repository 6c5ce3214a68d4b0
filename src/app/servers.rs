//! The configured tool servers, as commands of the program try them: side by side, each within its own bound.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::actors::mcp::{self, Fresh};
use crate::mcp::McpServers;
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

/// Connects to each server and reads its tools.
pub(super) async fn try_all(entries: &[ServerEntry]) -> Vec<Tried> {
    join_all(entries.iter().map(try_one)).await
}

/// The same for one server.
pub(super) async fn try_one(entry: &ServerEntry) -> Tried {
    let begun = Instant::now();
    let outcome = mcp::connect(&McpServers::guarded(), entry).await;
    Tried { entry: entry.clone(), outcome, took: begun.elapsed() }
}

/// Ends the sessions in order.
pub(super) async fn close(tried: &[Tried]) {
    join_all(tried.iter().filter_map(|tried| tried.outcome.as_ref().ok()).map(|(server, _)| server.close())).await;
}
