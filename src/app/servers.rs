//! The configured tool servers, as commands of the program try them: side by side, each within its own bound.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use crate::mcp::McpServers;
use crate::mcp::oauth::Logins;
use crate::ports::tools::{Listing, ServerEntry};
use crate::ports::{ToolServer, ToolServers};

/// How long a server may take to connect.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long its list may take.
const LIST_WITHIN: Duration = Duration::from_secs(11);

/// What came of trying one server.
pub(super) struct Tried {
    /// Its entry.
    pub entry: ServerEntry,
    /// The server and its tools, or what is wrong and the fix.
    pub outcome: Result<(Arc<dyn ToolServer>, Listing), String>,
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
    let outcome = async {
        let servers = McpServers { logins: logins.cloned(), ..McpServers::guarded() };
        let server = servers.connect(entry, CONNECT_WITHIN).await.map_err(|error| error.to_string())?;
        let listed = timeout(LIST_WITHIN, server.list()).await;
        let listing = listed.map_err(|_| "its list of tools did not come; see the server's own log".to_owned())?;
        Ok((server, listing.map_err(|error| error.to_string())?))
    };
    let outcome = outcome.await;
    Tried { entry: entry.clone(), outcome, took: begun.elapsed() }
}

/// Ends the sessions in order.
pub(super) async fn close(tried: &[Tried]) {
    join_all(tried.iter().filter_map(|tried| tried.outcome.as_ref().ok()).map(|(server, _)| server.close())).await;
}
