//! The server backend: Redis or Valkey.
//!
//! Every key is a plain string under its own name, so this program and the Python bot can read each other's data. The
//! server expires keys. Short requests share one pipelined connection, which is tested after an idle period and after a
//! request without an answer in time; requests that begin at the same moment are sent in one write. Long requests take
//! a separate connection from a pool that tests each before use. A server that was restarted therefore needs no
//! intervention. Acknowledged data counts as durable; its actual durability depends on the server's configuration
//! (`appendfsync`).

use std::time::Duration;

use ::redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, cmd};
use async_trait::async_trait;
use tokio::sync::mpsc;

use self::limits::LimitScript;
use self::line::Line;
use self::pool::{Link, Pool};
use crate::resilient::StoreBounds;
use crate::{AccountsKnown, Backend, BackendError, Batch, FoundRows, LimitOutcome, Steps};
use domain::limits::Request;
use domain::limits::member_windows::Changes;
use domain::ownership::{FencingToken, Range};
use ports::{Keeping, Scanned, StoredRow, Write};

mod address;

mod copying;

mod counting;

pub mod keeping;

pub mod lease;

mod limits;

mod line;

pub mod opener;

mod owning;

mod pool;

mod scanning;

#[cfg(test)]
mod tests;

/// The longest backoff of a failing server. Retries are cheap, and members notice when memory is available again.
const RETRY_MOST: Duration = Duration::from_millis(500);

/// The longest TTL sent, about three centuries. The server rejects expiries that overflow its clock.
const TTL_MOST: u128 = 10_000_000_000_000;

/// The size in bytes above which a batch takes a separate connection, so that it delays no other request.
const LONG_BATCH: usize = 256 * 1024;

/// Sets a key if it holds the expected value. A repeated request may find its own value; its caller then reads again.
const REPLACE: &str = "local now = redis.call('GET', KEYS[1])
local same = (now == false and ARGV[1] == '0') or (now ~= false and ARGV[1] == '1' and now == ARGV[2])
if not same then return 0 end
redis.call('SET', KEYS[1], ARGV[3])
return 1";

/// The explanation of a failed login.
const LOGIN: &str = "it refuses the login, set the right password in REDIS_URL or REDIS_PASSWORD: ";

/// The explanation of a missing permission.
const RIGHTS: &str = "the user of the login lacks a permission, grant it: ";

/// The explanation of a key that is on another server.
const CLUSTER: &str = "it is one server of a cluster, set REDIS_URL to redis-cluster://[user][:password@]host:port: ";

/// The longest time for which writes wait to share another request's write. A write with a waiting caller is not
/// delayed.
const GATHER: Duration = Duration::from_millis(40);

/// The least timeout of an answer, however fast the server usually is. It exceeds the pauses of a healthy server, such
/// as the fork of a snapshot or a slow command of another program.
const READ_LEAST: Duration = Duration::from_millis(150);

/// The same for a commit.
const COMMIT_LEAST: Duration = Duration::from_millis(200);

/// The bounds of a store on this backend.
#[must_use]
pub fn bounds() -> StoreBounds {
    StoreBounds {
        gather: GATHER,
        retry_most: RETRY_MOST,
        read_least: READ_LEAST,
        commit_least: COMMIT_LEAST,
        ..StoreBounds::default()
    }
}

/// Connections to a server, a cluster, or a sentinel's master.
pub struct Redis {
    /// The connection of short requests.
    line: Line,
    /// The connections of long requests.
    pool: Pool,
    /// The connections of scans, one for each that may run.
    scans: Pool,
    /// The address for messages; never contains a secret.
    place: String,
    limit_script: LimitScript,
}

impl Redis {
    /// Takes a separate connection for this request.
    async fn own(&self, request: &str) -> Result<Link, BackendError> {
        self.of(&self.pool, request).await
    }

    async fn of(&self, pool: &Pool, request: &str) -> Result<Link, BackendError> {
        pool.get().await.map_err(|error| match error {
            deadpool_redis::PoolError::Backend(error) => self.judge(request, error),
            error => BackendError::Failed(format!("redis at {}: {request}: {error}", self.place)),
        })
    }

    /// Returns a separate connection to the pool, unless its result indicates that it is broken.
    fn done<T>(&self, request: &str, link: Link, result: RedisResult<T>) -> Result<T, BackendError> {
        result.map_err(|error| {
            if error.is_io_error() {
                link.discard();
            } else if takes_no_writes(&error) {
                // After a failover the name may resolve to another server, while the old connections still answer.
                link.discard();
                self.pool.forget_idle();
                self.scans.forget_idle();
            }
            self.judge(request, error)
        })
    }

    /// Sends a request on the shared connection, and once more on a new one if that broke: every request may be
    /// repeated.
    async fn send<T, F>(&self, request: &str, call: impl Fn(Link) -> F + Send) -> Result<T, BackendError>
    where
        F: Future<Output = RedisResult<T>> + Send,
    {
        let mut again = false;
        // Lets other requests that are about to be sent join the same write.
        line::round().await;
        loop {
            let (link, number) = self.line.link().await.map_err(|error| self.judge(request, error))?;
            let awaited = self.line.awaited(number);
            let answer = call(link).await;
            awaited.answered();
            let error = match answer {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let broke = error.is_unrecoverable_error() || error.is_connection_dropped();
            if broke || error.is_io_error() || takes_no_writes(&error) {
                self.line.discard(number).await;
            }
            if again || !broke {
                return Err(self.judge(request, error));
            }
            again = true;
        }
    }

    /// Converts an error. No error is fatal, because connections are replaced automatically.
    fn judge(&self, request: &str, error: RedisError) -> BackendError {
        let fix =
            if error.is_connection_refusal() { "; start the server, or correct REDIS_URL (or REDIS_HOST)" } else { "" };
        BackendError::Failed(format!("redis at {}: {request}: {}{fix}", self.place, describe(error)))
    }
}

#[async_trait]
impl Backend for Redis {
    const SHARED: bool = true;

    async fn get(&self, key: &str) -> Result<Option<String>, BackendError> {
        let asked = |mut link: Link| async move {
            let got: RedisResult<Option<Vec<u8>>> = cmd("GET").arg(key).query_async(&mut link).await;
            match got {
                Err(error) if error.code() == Some("WRONGTYPE") => Ok(Err("is of another type")),
                Ok(Some(bytes)) => Ok(String::from_utf8(bytes).map(Some).map_err(|_| "is not UTF-8")),
                Ok(None) => Ok(Ok(None)),
                Err(error) => Err(error),
            }
        };
        let got = self.send("GET", asked).await?;
        got.map_err(|why| BackendError::NotText(format!("redis at {}: the value of {key} {why}", self.place)))
    }

    async fn scan_many(&self, prefixes: &[&str], limit: usize, steps: &Steps) -> Result<FoundRows, BackendError> {
        if limit == 0 || prefixes.is_empty() {
            return Ok(Scanned::new(vec![Vec::new(); prefixes.len()], true));
        }
        let mut link = self.of(&self.scans, "SCAN").await?;
        let found = scanning::rows(&mut link, prefixes, limit, steps).await;
        self.done("SCAN", link, found)
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = &batch;
        if batch.bytes() <= LONG_BATCH {
            let applied = |mut link: Link| async move { owning::apply(&mut link, batch).await };
            return self.send("a transaction of writes", applied).await;
        }
        let mut link = self.own("a transaction of writes").await?;
        let applied = owning::apply(&mut link, batch).await;
        self.done("a transaction of writes", link, applied)
    }

    async fn set_aside(&self, key: &str, aside: &str, ttl: Duration) -> Result<bool, BackendError> {
        // In a cluster the two keys can be on different servers, so neither RENAME nor COPY works.
        let asked = |mut link: Link| async move { cmd("DUMP").arg(key).query_async(&mut link).await };
        let dump: Option<Vec<u8>> = self.send("DUMP", asked).await?;
        let Some(dump) = &dump else { return Ok(true) };
        let life = ttl.as_millis().min(TTL_MOST).to_string();
        let mut restore = cmd("RESTORE");
        restore.arg(aside).arg(life).arg(dump.as_slice()).arg("REPLACE");
        let restore = &restore;
        let asked = |mut link: Link| async move { restore.exec_async(&mut link).await };
        self.send("RESTORE", asked).await.map(|()| true)
    }

    async fn take_token(&self, range: &Range) -> Result<FencingToken, BackendError> {
        let asked = |mut link: Link| async move { owning::take_token(&mut link, range).await };
        self.send("EVAL of a fencing token", asked).await
    }

    async fn replace(&self, key: &str, seen: Option<&str>, value: &str) -> Result<bool, BackendError> {
        let asked = |mut link: Link| async move {
            let mut replace = cmd("EVAL");
            replace.arg(REPLACE).arg(1).arg(key).arg(u8::from(seen.is_some())).arg(seen.unwrap_or_default()).arg(value);
            replace.query_async(&mut link).await
        };
        self.send("EVAL of a replacement", asked).await.map(|done: u8| done == 1)
    }

    async fn decide_limit(&self, request: &Request, known: &AccountsKnown) -> Result<LimitOutcome, BackendError> {
        let asked = |mut link: Link| async move { self.limit_script.decide_limit(&mut link, request, known).await };
        self.send("EVALSHA of the limits", asked).await
    }

    async fn merge(&self, changes: &[Changes]) -> Result<(), BackendError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut link = self.own("EVALSHA of the limits").await?;
        let merged = self.limit_script.merge(&mut link, changes).await;
        self.done("EVALSHA of the limits", link, merged)
    }

    /// Tests the connection; the server removes expired keys itself.
    async fn sweep(&self) -> Result<bool, BackendError> {
        self.send("PING", |mut link: Link| async move { cmd("PING").exec_async(&mut link).await }).await.map(|()| false)
    }

    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        let mut link = self.own("a copy").await?;
        let copied = copying::copy(&mut link, &to).await;
        self.done("a copy", link, copied)
    }

    async fn keeping(&self) -> Option<Keeping> {
        let mut link = self.own("CONFIG GET").await.ok()?;
        let settings = keeping::settings(&mut link).await;
        self.done("CONFIG GET", link, settings).ok().map(|settings| keeping::judged(&settings))
    }

    async fn close(&self) {
        self.line.close().await;
        self.pool.close();
        self.scans.close();
    }
}

/// Returns the command of a write that replaces the value, of any type. Increments are in [`counting`].
fn command(write: &Write) -> Option<(&str, Cmd)> {
    match write {
        // The server rejects a TTL of zero.
        Write::Put { key, ttl: Some(ttl), .. } if ttl.as_millis() == 0 => Some((key, delete(key))),
        Write::Put { key, value, ttl } | Write::Join { key, value, ttl } => {
            let mut set = cmd("SET");
            set.arg(key).arg(value);
            if let Some(ttl) = ttl {
                set.arg("PX").arg(ttl.as_millis().min(TTL_MOST).to_string());
            }
            Some((key, set))
        }
        Write::Delete { key } => Some((key, delete(key))),
        Write::Add { .. } => None,
    }
}

fn delete(key: &str) -> Cmd {
    let mut delete = cmd("DEL");
    delete.arg(key);
    delete
}

/// Converts invalid UTF-8 lossily: the caller finds it unreadable and sets it aside.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn takes_no_writes(error: &RedisError) -> bool {
    let stale = |code: &str| matches!(code, "READONLY" | "MASTERDOWN");
    let inner = error.clone().into_server_errors();
    error.code().is_some_and(stale) || inner.is_some_and(|errors| errors.iter().any(|(_, error)| stale(error.code())))
}

/// Returns one line with the error and its explanation; of several failed commands, only the first.
fn describe(error: RedisError) -> String {
    let kind = error.kind();
    let whole = error.to_string();
    let Some(errors) = error.into_server_errors().filter(|errors| !errors.is_empty()) else {
        return match kind {
            ErrorKind::AuthenticationFailed => format!("{LOGIN}{whole}"),
            _ => whole,
        };
    };
    let (code, details) = (errors[0].1.code(), errors[0].1.details().unwrap_or_default());
    let meaning = match code {
        "OOM" => "it is out of memory: ",
        "READONLY" | "MASTERDOWN" | "NOREPLICAS" | "MISCONF" => "it takes no writes: ",
        "LOADING" => "it is still loading: ",
        "NOAUTH" | "WRONGPASS" => LOGIN,
        "NOPERM" => RIGHTS,
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => CLUSTER,
        _ if kind == ErrorKind::Server(ServerErrorKind::ExecAbort) => "it refused a transaction: ",
        _ => "",
    };
    format!("{meaning}{code} {details}")
}
