//! The shared connection of all short requests. Requests of several callers are pipelined and answered in order; a
//! cancelled caller does not affect the others.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use deadpool_redis::redis;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, cmd};
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::pool::Link;

/// The idle time after which a connection is tested before use.
const IDLE: Duration = Duration::from_secs(10);

/// The timeout of that test.
const ALIVE_TIMEOUT: Duration = Duration::from_millis(500);

/// The timeout of connecting, including TLS, login and the lookup of the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub enum Connector {
    One(Client, AsyncConnectionConfig),
    #[cfg(feature = "redis-sentinel")]
    Sentinel(Box<redis::sentinel::SentinelClient>, AsyncConnectionConfig),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster::ClusterClient),
}

/// The connection and its reconnection.
pub struct Line {
    state: Mutex<State>,
    /// The number of a connection on which a caller timed out.
    doubted: AtomicU64,
}

/// A request on the connection. If it is dropped without an answer, the connection is suspected: it may be dead, and
/// callers that each time out early would never find out.
pub struct Awaited<'a> {
    line: &'a Line,
    number: u64,
}

struct State {
    connector: Connector,
    kept: Option<Kept>,
    /// The number of connections created so far.
    made: u64,
    closed: bool,
}

struct Kept {
    connection: Connection,
    used: Instant,
}

#[derive(Clone)]
enum Connection {
    One(redis::aio::MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl Line {
    pub fn new(connector: Connector) -> Self {
        let state = Mutex::new(State { connector, kept: None, made: 0, closed: false });
        Self { state, doubted: AtomicU64::new(0) }
    }

    /// Returns the connection and its number. A lost connection is replaced, even if the loss is only detected now.
    pub async fn link(&self) -> RedisResult<(Link, u64)> {
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(RedisError::from((ErrorKind::Client, "the connection is closed")));
        }
        let number = state.made;
        if let Some(kept) = &mut state.kept {
            let doubted = self.doubted.load(Ordering::Relaxed) == number;
            let fresh = kept.used.elapsed() < IDLE && !doubted || alive(kept.connection.link()).await;
            if fresh {
                if doubted {
                    self.doubted.store(0, Ordering::Relaxed);
                }
                kept.used = Instant::now();
                return Ok((kept.connection.link(), number));
            }
        }
        state.kept = None;
        let connection = timeout(CONNECT_TIMEOUT, state.connector.connect()).await.map_err(|_| {
            let late = format!("no connection within {CONNECT_TIMEOUT:?}");
            RedisError::from((ErrorKind::Io, "connecting took too long", late))
        })??;
        let link = connection.link();
        state.made += 1;
        state.kept = Some(Kept { connection, used: Instant::now() });
        Ok((link, state.made))
    }

    /// Begins a request on the connection of this number.
    pub const fn awaited(&self, number: u64) -> Awaited<'_> {
        Awaited { line: self, number }
    }

    /// Discards the connection of this number.
    pub async fn discard(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.made == number {
            state.kept = None;
        }
    }

    pub async fn close(&self) {
        let mut state = self.state.lock().await;
        state.closed = true;
        state.kept = None;
    }
}

impl Awaited<'_> {
    /// Records that the request has its answer or error.
    pub const fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.line.doubted.store(self.number, Ordering::Relaxed);
    }
}

impl Connector {
    async fn connect(&mut self) -> RedisResult<Connection> {
        match self {
            Self::One(client, config) => {
                client.get_multiplexed_async_connection_with_config(config).await.map(Connection::One)
            }
            #[cfg(feature = "redis-sentinel")]
            Self::Sentinel(client, config) => {
                client.get_async_connection_with_config(config).await.map(Connection::One)
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }
}

impl Connection {
    fn link(&self) -> Link {
        match self.clone() {
            Self::One(connection) => Link::Shared(connection),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => Link::SharedCluster(connection),
        }
    }
}

/// Lets the currently ready tasks run. A poll from outside of a task, after which no wake-up follows, does not count.
pub async fn round() {
    let (mut seen, mut looks): (Option<Waker>, u8) = (None, 0);
    poll_fn(|context| {
        looks += 1;
        let same = seen.as_ref().is_some_and(|seen| seen.will_wake(context.waker()));
        // One waker may look like two, so the third poll always ends the round.
        if same || looks > 2 {
            return Poll::Ready(());
        }
        seen = Some(context.waker().clone());
        pin!(yield_now()).poll(context)
    })
    .await;
}

async fn alive(mut link: Link) -> bool {
    let asked = cmd("PING");
    matches!(timeout(ALIVE_TIMEOUT, asked.exec_async(&mut link)).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Wake};

    use super::*;

    struct Sleeper;

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_round_is_over_even_if_no_waker_knows_another() {
        let mut round = pin!(round());
        let mut look = || round.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Sleeper))));
        assert_eq!([look(), look(), look()], [Poll::Pending, Poll::Pending, Poll::Ready(())]);
    }
}
