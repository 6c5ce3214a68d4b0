//! A running program: its start, its service and its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::assemble::{self, Assembled, Launch, StartError};
use super::drain::{self, Deadlines, STORE_TIMEOUT};
use super::standby::Active;
use super::start_log::StartFields;
use super::unlisted::Unlisted;
use actors::services::running::Exit;
use actors::wiring::{Drained, Tree};
use domain::ids::Door;
use domain::ownership::Range;
use ports::{Store, Vitals};
use resident_memory::{heap, program};
use telemetry::events::{DRAIN_FINISHED, DRAIN_STARTED, MEMORY_RELEASED};

/// The time after which the start code is no longer needed.
const START_SETTLES: Duration = Duration::from_secs(3);

/// The pause between two collections of the allocator's free pages: the longest time for which the memory of a burst
/// stays resident afterwards.
const COLLECT_EVERY: Duration = Duration::from_secs(10);

/// A running program: the tree and the parts that outlive it.
pub struct App {
    tree: Tree,
    store: Arc<dyn Store>,
    vitals: Arc<dyn Vitals>,
    drain: Duration,
    exit: watch::Receiver<Option<Exit>>,
    bound: watch::Receiver<Option<SocketAddr>>,
    /// The names of the configured tool servers.
    servers: Vec<String>,
    /// The lease on a shared store.
    active: Option<Active>,
    /// The ranges of turns that other processes own, and the platform's door.
    fenced: watch::Receiver<Vec<Range>>,
    home: Door,
}

/// The reason why a running program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It received the request to end.
    StopRequested,
    /// The root supervisor gave up.
    GaveUp,
    /// A required service refused the bot permanently.
    Refused(String),
    /// Another process with the same bot account may be active, for this reason.
    Superseded(String),
}

impl App {
    /// Creates all parts and starts the tree.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(launch: Launch) -> Result<Self, StartError> {
        let Assembled { parts, exited: exit, bound, active } = Box::pin(assemble::assemble(launch)).await?;
        let running = parts.basics.live.now();
        let drain = running.settings.drain.timeout;
        StartFields::of(&running.settings).tell(&running.version, &parts.doors.all.names(|_| true));
        let (store, vitals) = (Arc::clone(&parts.basics.store), Arc::clone(&parts.pages.vitals));
        let (fenced, home) = (parts.records.turns.fenced(), parts.doors.home.clone());
        if let Some(active) = &active {
            active.runs(Arc::clone(&vitals));
        }
        let servers = running.servers.entries.iter().map(|entry| entry.name.to_string()).collect();
        let tree = Tree::start(parts).await.map_err(|error| StartError::Tree(error.to_string()))?;
        Ok(Self { tree, store, vitals, drain, exit, bound, servers, active, fenced, home })
    }

    /// Serves until `told` resolves, the root gives up, or a required service refuses the bot permanently.
    pub async fn serve(&mut self, told: impl Future<Output = ()>) -> Ended {
        let lost = self.lost();
        let moves = self.active.as_mut().and_then(Active::moves);
        let (mover, drain) = (self.tree.mover(), self.drain);
        let moving = async move {
            if let Some(moves) = moves {
                moves.follow(&mover, drain).await;
            }
            std::future::pending::<Infallible>().await
        };
        let refused = self.exit.wait_for(Option::is_some);
        let _returning = AbortOnDropHandle::new(tokio::spawn(return_memory()));
        tokio::select! {
            reason = lost => Ended::Superseded(reason),
            never = moving => match never {},
            () = told => Ended::StopRequested,
            () = self.tree.gave_up() => Ended::GaveUp,
            refused = refused => match refused.map(|exit| exit.clone()) {
                Ok(Some(Exit::Refused(reason))) => Ended::Refused(reason),
                Ok(None) | Err(_) => Ended::GaveUp,
            },
        }
    }

    /// Returns the address of the pages once they are reachable, or `None` if they never will be.
    pub fn address(&self) -> impl Future<Output = Option<SocketAddr>> + Send + use<> {
        let mut bound = self.bound.clone();
        async move { bound.wait_for(Option::is_some).await.ok().and_then(|address| *address) }
    }

    /// Returns the configured tool servers whose tools are not known yet.
    #[must_use]
    pub fn unlisted(&self) -> Unlisted {
        Unlisted::of(&self.servers, &self.vitals.tooling())
    }

    /// Returns a function that reloads the configuration.
    pub fn reload(&self) -> impl Fn() + Send + use<> {
        self.tree.reload()
    }

    fn takes_no_more(&self) {
        if let Some(active) = &self.active {
            active.takes_no_more();
        }
    }

    /// Resolves with the reason once another process may be active. Without a lease it never resolves.
    fn lost(&self) -> impl Future<Output = String> + Send + use<> {
        let lost = self.active.as_ref().map(Active::lost);
        let (mut fenced, home) = (self.fenced.clone(), self.home.clone());
        async move {
            let Some(lost) = lost else { return std::future::pending().await };
            tokio::select! {
                reason = lost => reason,
                Ok(_) = fenced.wait_for(|fenced| fenced.iter().any(|range| *range.door() == home)) => {
                    format!("another process owns the turns of {home}")
                }
            }
        }
    }

    /// Finishes the turns in flight, stops the tree in order, and saves all data. True if every accepted turn is
    /// answered.
    pub async fn drain(self) -> bool {
        self.takes_no_more();
        let (lost, drain, end) = (self.lost(), self.drain, Deadlines::of(Instant::now(), self.drain));
        let within_ms = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(event = DRAIN_STARTED, within_ms, "draining");
        let Drained { finished, left } = tokio::select! {
            drained = self.tree.drain(drain) => drained,
            reason = lost => {
                self.give_way(&reason).await;
                return false;
            }
        };
        let Self { tree, store, vitals, active, .. } = self;
        tree.stop_within(end.tree(Instant::now())).await;
        vitals.stops();
        let saved = store.close(end.store(Instant::now())).await;
        release(active).await;
        let words = drain::summary(finished, left, saved);
        tracing::info!(event = DRAIN_FINISHED, finished, left, saved, "{words}");
        finished
    }

    /// Stops the tree in order and saves all data, without waiting for turns in flight.
    pub async fn stop(self) {
        self.takes_no_more();
        self.tree.stop().await;
        self.vitals.stops();
        self.store.close(STORE_TIMEOUT).await;
        release(self.active).await;
    }

    /// Saves all data of a tree that gave up.
    pub async fn close(self) {
        self.takes_no_more();
        self.store.close(STORE_TIMEOUT).await;
        release(self.active).await;
    }

    /// Stops immediately, because another process may be active, and saves all data once the store answers. A new start
    /// before that could not know whether it may be active.
    pub async fn give_way(self, reason: &str) {
        self.takes_no_more();
        self.tree.stop_within(Duration::ZERO).await;
        if let Some(active) = &self.active {
            active.until_the_store_answers(reason).await;
        }
        self.store.close(STORE_TIMEOUT).await;
        release(self.active).await;
    }
}

async fn release(active: Option<Active>) {
    if let Some(active) = active {
        active.release().await;
    }
}

/// Returns memory to the kernel: once the pages of the executable that only the start needed, most of the memory at
/// rest, and periodically the free pages of the allocator.
async fn return_memory() {
    sleep(START_SETTLES).await;
    match tokio::task::spawn_blocking(program::release).await {
        Ok(Ok(bytes)) => tracing::debug!(event = MEMORY_RELEASED, bytes, "unmapped pages of the program's file"),
        Ok(Err(error)) => tracing::debug!(event = MEMORY_RELEASED, %error, "cannot unmap the program's file"),
        // The runtime is shutting down.
        Err(_) => {}
    }
    loop {
        sleep(COLLECT_EVERY).await;
        heap::collect();
    }
}
