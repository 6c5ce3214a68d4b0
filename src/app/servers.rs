//! Connections to the configured tool servers for the program's commands: concurrent, with a limit on processes and a
//! timeout each.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use ::mcp::McpServers;
use ::mcp::oauth::Logins;
use actors::mcp::{self, Fresh, Starts};
use actors::observers::Observers;
use ports::tools::ServerEntry;

/// The interval between progress lines about pending servers.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// The maximum number of names in such a line.
const NAMES_MAX: usize = 10;

/// The result of trying one server.
pub(crate) struct Tried {
    /// The entry of the server.
    pub entry: ServerEntry,
    /// The server and its tools, or the problem and the fix.
    pub outcome: Result<Fresh, String>,
    /// The duration of the attempt.
    pub took: Duration,
}

/// Connects to each server, with these logins, and reads its tools. Prints the pending servers to standard error.
pub(crate) async fn try_all(entries: &[ServerEntry], logins: &Logins) -> Vec<Tried> {
    let (begun, starts) = (Instant::now(), Starts::default());
    let mut waiting: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let mut trying: FuturesUnordered<_> = entries.iter().map(|entry| try_with(entry, Some(logins), &starts)).collect();
    let mut tell = interval_at(begun + TELL_EVERY, TELL_EVERY);
    tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tried = Vec::with_capacity(entries.len());
    loop {
        tokio::select! {
            one = trying.next() => match one {
                Some(one) => {
                    waiting.remove(one.entry.name.as_str());
                    tried.push(one);
                }
                None => break,
            },
            _ = tell.tick() => {
                eprintln!("waiting for {} ({} s)", names(waiting.iter().copied()), begun.elapsed().as_secs());
            }
        }
    }
    tried.sort_by_key(|tried: &Tried| entries.iter().position(|entry| entry.name == tried.entry.name));
    tried
}

/// Returns the first of these names, and the number of the others.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Connects to one server and reads its tools.
pub(crate) async fn try_one(entry: &ServerEntry, logins: Option<&Logins>) -> Tried {
    try_with(entry, logins, &Starts::default()).await
}

async fn try_with(entry: &ServerEntry, logins: Option<&Logins>, starts: &Starts) -> Tried {
    let begun = Instant::now();
    let servers = McpServers { logins: logins.cloned(), ..McpServers::guarded() };
    let outcome = mcp::connect(&servers, entry, starts, &Observers::default()).await;
    Tried { entry: entry.clone(), outcome, took: begun.elapsed() }
}

/// Ends the sessions in order.
pub(crate) async fn close(tried: &[Tried]) {
    join_all(tried.iter().filter_map(|tried| tried.outcome.as_ref().ok()).map(|(server, _)| server.close())).await;
}
