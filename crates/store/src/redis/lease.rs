//! The lease of a server that several processes share: one process holds it and acts, the others stand by.
//!
//! Guarantees:
//! - At most one process holds the lease at any time. The server's clock ends a term; clocks of processes are not
//!   compared.
//! - A renewal tells the holder whether another process stands by, and can therefore take over at the end of the term.
//! - A released lease is free at once.
//!
//! The lease alone does not protect data: a holder can be paused beyond its term. The fencing tokens of its ranges do
//! (`owning`): the next holder takes new ones before it reads a turn.

use std::time::Duration;

use ::redis::{RedisResult, cmd};

use super::Redis;
use super::pool::Link;
use domain::keys;

/// Key: the record. Arguments: the name of the caller, the time of a term and the time for which a waiting process is
/// remembered, both in milliseconds. Returns 1 and 1 if another process waits; or 0, the rest of the current term in
/// milliseconds and its holder.
const TAKE: &str = r"
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = redis.call('HMGET', KEYS[1], 'holder', 'until', 'waiting', 'waits_until')
local over = math.min(tonumber(told[2] or 0) or 0, now + ARGV[2])
if told[1] and told[1] ~= ARGV[1] and over > now then
    redis.call('HSET', KEYS[1], 'waiting', ARGV[1], 'waits_until', string.format('%.0f', now + ARGV[3]))
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return {0, over - now, told[1]}
end
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local waits = told[3] and told[3] ~= ARGV[1] and (tonumber(told[4] or 0) or 0) > now
return {1, waits and 1 or 0, ARGV[1]}
";

/// Key: the record. Argument: the name of the caller. Ends the caller's term, and forgets that it waits.
const RELEASE: &str = r"
local told = redis.call('HMGET', KEYS[1], 'holder', 'waiting')
if told[1] == ARGV[1] then redis.call('HDEL', KEYS[1], 'holder', 'until') end
if told[2] == ARGV[1] then redis.call('HDEL', KEYS[1], 'waiting', 'waits_until') end
return 1
";

/// The time of a term, from each renewal.
pub const TERM: Duration = Duration::from_secs(2);

/// The time for which a process that asked in vain counts as waiting; many times the pause between its requests.
pub const WAITS: Duration = Duration::from_secs(10);

/// The lease from the view of one process.
pub struct Lease {
    redis: Redis,
    name: String,
}

/// The answer to a request for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// This process holds the lease for one more [`TERM`].
    Held {
        /// True if another process waits for it.
        awaited: bool,
    },
    /// Another process holds it.
    Elsewhere {
        /// The name of that process.
        holder: String,
        /// The rest of its term, unless it renews it.
        left: Duration,
    },
}

impl Lease {
    /// Creates the view of a process by its name, which no other process may have.
    #[must_use]
    pub const fn new(redis: Redis, name: String) -> Self {
        Self { redis, name }
    }

    /// Takes the lease if it is free, or renews it.
    ///
    /// # Errors
    /// A sentence, if the server cannot be asked. The lease may have been taken nevertheless.
    pub async fn take(&self) -> Result<Standing, String> {
        let asked = |mut link: Link| async move {
            let mut take = cmd("EVAL");
            take.arg(TAKE).arg(1).arg(keys::LEASE).arg(&self.name);
            take.arg(millis(TERM)).arg(millis(WAITS)).query_async(&mut link).await
        };
        let (held, number, holder): (bool, u64, String) = self.ask(asked).await?;
        Ok(if held {
            Standing::Held { awaited: number == 1 }
        } else {
            Standing::Elsewhere { holder, left: Duration::from_millis(number) }
        })
    }

    /// Ends the term of this process, so that another one need not wait for its end.
    ///
    /// # Errors
    /// A sentence, if the server cannot be asked.
    pub async fn release(&self) -> Result<(), String> {
        let asked = |mut link: Link| async move {
            cmd("EVAL").arg(RELEASE).arg(1).arg(keys::LEASE).arg(&self.name).exec_async(&mut link).await
        };
        self.ask(asked).await
    }

    async fn ask<T, F>(&self, call: impl Fn(Link) -> F + Send) -> Result<T, String>
    where
        F: Future<Output = RedisResult<T>> + Send,
    {
        self.redis.send("EVAL of the lease", call).await.map_err(|error| error.to_string())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
