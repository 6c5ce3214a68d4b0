//! A source of events over Socket Mode: one connection, and for a moment two, because the next one opens before the
//! last one closes. A door has two sources. Slack gives each event to any connection, so while one source reconnects,
//! the other one receives.
//!
//! Source: `docs.slack.dev/apis/events-api/using-socket-mode`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::link::Link;
use super::taking::Work;
use super::{Account, Slack};
use domain::restart::Backoff;
use ports::{CaughtUp, EventSource, Intake, Lottery, Missed, SourceError};
use telemetry::events::SLACK_REFRESH;

/// The number of sources of a door. Slack accepts at most ten connections of an app.
pub const SOCKETS: u32 = 2;

/// The delays between connections.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(30) };
/// The tries to open the next connection while the last one still serves.
const TRIES: u32 = 6;
/// The delay between them.
const TRY_EVERY: Duration = Duration::from_secs(2);
/// The longest wait for the next connection after the last one ended.
const NEXT_TIMEOUT: Duration = Duration::from_secs(10);
/// The part of a connection's life after which it is replaced, in tenths.
const LIFE_TENTHS: u32 = 9;

/// One source.
pub struct Socket {
    slack: Arc<Slack>,
    number: u32,
    names: Arc<[String]>,
    lottery: Option<Lottery>,
}

impl Socket {
    /// Creates the sources of a door. `names` address the bot without a mention; `lottery` draws for messages that do not
    /// address it; `None` never draws.
    #[must_use]
    pub fn all(slack: &Arc<Slack>, names: &[String], lottery: &Option<Lottery>) -> Vec<Arc<dyn EventSource>> {
        let names: Arc<[String]> = names.iter().map(|name| name.trim().to_lowercase()).collect();
        let socket = |number| {
            let (slack, names) = (Arc::clone(slack), Arc::clone(&names));
            let socket = Self { slack, number, names, lottery: lottery.clone() };
            Arc::new(socket) as Arc<dyn EventSource>
        };
        (0..SOCKETS).map(socket).collect()
    }

    /// Serves until no connection is left.
    async fn serve(&self, intake: Arc<dyn Intake>, serving: &(dyn Fn() + Send + Sync)) -> Result<(), SourceError> {
        let us = self.slack.account().await?.clone();
        let link = Link::open(&self.slack, &us).await?;
        serving();
        let (refresh, mut refreshes) = mpsc::channel(1);
        // The first lives differ, so that the connections are never replaced at the same time.
        let mut life = link.lasts.map(|lasts| Instant::now() + lasts * LIFE_TENTHS / 10 * (self.number + 1) / SOCKETS);
        let mut links = FuturesUnordered::new();
        let mut current = 0_u64;
        let mut replaced = CancellationToken::new();
        let work = |replaced: &CancellationToken| Work {
            slack: Arc::clone(&self.slack),
            us: us.clone(),
            intake: Arc::clone(&intake),
            names: Arc::clone(&self.names),
            lottery: self.lottery.clone(),
            replaced: replaced.clone(),
            refresh: refresh.clone(),
        };
        links.push(run(current, link, work(&replaced)));
        let mut next: Option<BoxFuture<'_, Result<Link, SourceError>>> = None;
        loop {
            let due = life.unwrap_or_else(Instant::now);
            tokio::select! {
                Some((number, reason)) = links.next() => {
                    if number != current {
                        continue;
                    }
                    // The end of a connection that is about to be replaced is no failure.
                    let Some(opening) = next.take() else { return Err(SourceError::Unreachable(reason)) };
                    let opened = timeout(NEXT_TIMEOUT, opening).await;
                    let link = opened.unwrap_or(Err(SourceError::Unreachable(reason)))?;
                    life = link.lasts.map(|lasts| Instant::now() + lasts * LIFE_TENTHS / 10);
                    current += 1;
                    replaced = CancellationToken::new();
                    links.push(run(current, link, work(&replaced)));
                }
                Some(()) = refreshes.recv(), if next.is_none() => next = Some(self.open_next(&us)),
                () = sleep_until(due), if life.is_some() && next.is_none() => {
                    tracing::debug!(event = SLACK_REFRESH, reason = "its life ends", "a connection is replaced");
                    life = None;
                    next = Some(self.open_next(&us));
                }
                opened = opened(&mut next), if next.is_some() => {
                    next = None;
                    let link = match opened {
                        Ok(link) => link,
                        // The last one serves on until it ends.
                        Err(SourceError::Unreachable(_)) => {
                            life = Some(Instant::now() + NEXT_TIMEOUT);
                            continue;
                        }
                        Err(refused) => return Err(refused),
                    };
                    life = link.lasts.map(|lasts| Instant::now() + lasts * LIFE_TENTHS / 10);
                    // The last one goes on until what is on its way has arrived.
                    replaced.cancel();
                    current += 1;
                    replaced = CancellationToken::new();
                    links.push(run(current, link, work(&replaced)));
                    // A request of the last connection concerns that one alone.
                    while refreshes.try_recv().is_ok() {}
                }
            }
        }
    }

    /// Opens the next connection, with a few tries.
    fn open_next<'a>(&'a self, us: &'a Account) -> BoxFuture<'a, Result<Link, SourceError>> {
        let open = async move {
            for _ in 1..TRIES {
                match Link::open(&self.slack, us).await {
                    Err(SourceError::Unreachable(_)) => sleep(TRY_EVERY).await,
                    done => return done,
                }
            }
            Link::open(&self.slack, us).await
        };
        open.boxed()
    }
}

/// Serves a connection of this number.
fn run(number: u64, link: Link, work: Work) -> BoxFuture<'static, (u64, String)> {
    async move { (number, link.run(work).await) }.boxed()
}

async fn opened(next: &mut Option<BoxFuture<'_, Result<Link, SourceError>>>) -> Result<Link, SourceError> {
    match next {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

#[async_trait]
impl EventSource for Socket {
    async fn run(&self, intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        match self.serve(intake, &*serving).await {
            Err(error) => error,
            Ok(()) => SourceError::Unreachable("the source ended".to_owned()),
        }
    }

    fn pauses(&self) -> Backoff {
        RECONNECT
    }

    async fn catch_up(&self, missed: &Missed, intake: Arc<dyn Intake>) -> Result<CaughtUp, String> {
        self.slack.read_back(missed, &self.names, &*intake).await
    }
}
