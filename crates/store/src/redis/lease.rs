//! The lease of a server that several processes share: one process holds it and is active, the others stand by.
//!
//! Guarantees, on one server that keeps its data:
//! - At most one process holds the lease at any time. The server's clock ends a term; clocks of processes are not
//!   compared.
//! - A renewal reports whether another process stands by, and can therefore take over at the end of the term.
//! - A released lease is free immediately.
//! - A term that ends later than one term from now, because the server's clock was set back, is shortened to one term.
//! - If the server lost the record, a process that stands by waits one term before it takes the lease, so the holder
//!   can renew it.
//!
//! The lease alone does not protect data: a holder can be paused beyond its term. The fencing tokens of its ranges do
//! (`owning`): the next holder takes new ones before it reads a turn.
//!
//! If the bot's work is divided, the division has the lease, and each of its processes holds ranges below it
//! ([`ranges`]).
//!
//! A second lease with a long term, [`Lease::alone`], gives one data directory the right to start while the server does
//! not answer.

pub mod ranges;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, FromRedisValue, RedisError, cmd};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};

use self::ranges::Division;
use super::{Redis, describe};
use domain::keys;
use domain::ownership::Portions;

/// Key: the record. Arguments: the name of the caller, the duration of a term and the time for which a process that
/// stands by is remembered, both in milliseconds, 1 if the caller stands by. Returns 1, and 1 if another process stands
/// by; or 0 and the holder.
const TAKE: &str = r"
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = redis.call('HMGET', KEYS[1], 'holder', 'until', 'waiting', 'waits_until', 'released')
local holder, over = told[1], math.min(tonumber(told[2] or 0) or 0, now + ARGV[2])
local patient = ARGV[4] == '1'
if not holder and not told[5] and patient then
    holder, over = '', now + ARGV[2]
    redis.call('HSET', KEYS[1], 'holder', holder, 'until', string.format('%.0f', over))
end
if holder and holder ~= ARGV[1] and over > now and (holder ~= '' or patient) then
    redis.call('HSET', KEYS[1], 'waiting', ARGV[1], 'waits_until', string.format('%.0f', now + ARGV[3]),
        'until', string.format('%.0f', over))
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return {0, holder}
end
redis.call('HDEL', KEYS[1], 'released')
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local waits = told[3] and told[3] ~= ARGV[1] and (tonumber(told[4] or 0) or 0) > now
return {1, waits and '1' or '0'}
";

/// Key: the record. Argument: the name of the caller. Ends the caller's term, and forgets that it stands by. Only a
/// process that stands by now may take the lease without waiting: one that comes later, after an outage, may find this
/// holder back and active without a lease.
const RELEASE: &str = r"
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = redis.call('HMGET', KEYS[1], 'holder', 'waiting', 'waits_until')
if told[1] == ARGV[1] then
    redis.call('HDEL', KEYS[1], 'holder', 'until')
    if told[2] and told[2] ~= ARGV[1] and (tonumber(told[3] or 0) or 0) > now then
        redis.call('HSET', KEYS[1], 'released', '1')
    end
end
if told[2] == ARGV[1] then redis.call('HDEL', KEYS[1], 'waiting', 'waits_until') end
return 1
";

/// Key: the record. Returns the holder whose term has not ended, or an empty string.
const HOLDER: &str = r"
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = redis.call('HMGET', KEYS[1], 'holder', 'until')
return told[1] and (tonumber(told[2] or 0) or 0) > now and told[1] or ''
";

/// Key: the record. Arguments: a new secret and the time for which the record is kept, in milliseconds. Returns the
/// stored secret; the new one if none is stored.
const SHARE: &str = r"
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
redis.call('HSETNX', KEYS[1], 'secret', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HGET', KEYS[1], 'secret')
";

/// The duration of a term, from each renewal.
pub const TERM: Duration = Duration::from_secs(2);

/// The pause between two renewals: several fit into a term.
pub const RENEW_EVERY: Duration = Duration::from_millis(400);

/// The time before the end of a term at which its holder stops: its tree needs some of it, and clocks run at different
/// speeds.
const MARGIN: Duration = Duration::from_millis(250);

/// The pause between two requests of a process that stands by: the longest delay after a release.
pub const ASK_EVERY: Duration = Duration::from_millis(100);

/// The time for which a process that stands by is remembered; many times the pause between its requests.
pub const WAITS: Duration = Duration::from_secs(10);

/// The time for which a report of a process is kept.
pub const PRESENT_FOR: Duration = Duration::from_secs(10);

/// The time for which a shared secret is kept after its last use.
pub const SHARED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The duration of a term of [`Lease::alone`]: the longest time for which a directory that is gone keeps the right.
pub const ALONE_TERM: Duration = Duration::from_secs(24 * 60 * 60);

/// The timeout of an answer on an open connection. A slower connection is replaced.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

// A renewal that is asked for in time is answered before its holder stops.
const _: () = assert!(RENEW_EVERY.as_millis() + ANSWER_TIMEOUT.as_millis() + MARGIN.as_millis() < TERM.as_millis());

/// Returns the time by which a holder stops unless it renews its term. `asked` is the time of the last request that was
/// granted, so the term at the server ends later.
#[must_use]
pub fn stops_at(asked: Instant) -> Instant {
    asked + TERM.saturating_sub(MARGIN)
}

/// A record of a holder, and its durations.
#[derive(Clone, Copy)]
struct Terms {
    key: &'static str,
    term: Duration,
    /// The time for which the record and a process that stands by are remembered.
    waits: Duration,
}

/// The active process.
const ACTIVE: Terms = Terms { key: keys::LEASE, term: TERM, waits: WAITS };

/// The data directory that may start without the server. No process stands by for it.
const ALONE: Terms = Terms { key: keys::ALONE, term: ALONE_TERM, waits: ALONE_TERM };

/// The lease from the view of one process.
pub struct Lease {
    redis: Arc<Redis>,
    name: String,
    terms: Terms,
    /// The division of the bot's work; `None` if one process does all of it.
    division: Option<Division>,
}

/// The reason why there is no answer about a lease, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseFault {
    /// The server does not answer, or cannot decide now. The lease may have been taken nevertheless.
    Away(String),
    /// The server does not allow the request, so no process can ever hold the lease.
    Refused(String),
}

impl fmt::Display for LeaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Away(reason) | Self::Refused(reason)) = self;
        f.write_str(reason)
    }
}

/// The answer to a request for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// This process holds the lease for one more [`TERM`].
    Held {
        /// True if another process stands by.
        awaited: bool,
    },
    /// The process with this name holds it.
    Elsewhere(String),
}

impl Lease {
    /// Creates the view of a process by its name, which no other process may have.
    #[must_use]
    pub fn new(redis: Redis, name: String) -> Self {
        Self { redis: Arc::new(redis), name, terms: ACTIVE, division: None }
    }

    /// Divides the bot's work into this many ranges, of which the process holds some. One range is no division.
    #[must_use]
    pub fn divided(self, ranges: u32) -> Self {
        Self { division: (ranges > 1).then(|| Division::into(ranges)), ..self }
    }

    /// True if the bot's work is divided. Then no process may act without the lease.
    #[must_use]
    pub const fn is_divided(&self) -> bool {
        self.division.is_some()
    }

    /// Returns the portions of the work that this process holds by the last answer; none before the first one.
    #[must_use]
    pub fn portions(&self) -> Portions {
        self.division.as_ref().map_or(Portions::WHOLE, |division| *division.held.lock())
    }

    /// Returns the lease for which data directories apply, each with a name of its own. It shares the connection.
    #[must_use]
    pub fn alone(&self, name: String) -> Self {
        Self { redis: Arc::clone(&self.redis), name, terms: ALONE, division: None }
    }

    /// Returns the address of the server, without secrets.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.redis.place
    }

    /// Takes the lease if it is free, or renews it. `stands_by` is true for a process that is not active.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn take(&self, stands_by: bool) -> Result<LeaseAnswer, LeaseFault> {
        self.take_timed(stands_by).await.1
    }

    /// Like [`Self::take`], with the time at which the request was sent: a term begins no earlier. Connecting may take
    /// long before that.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn take_timed(&self, stands_by: bool) -> (Instant, Result<LeaseAnswer, LeaseFault>) {
        if let Some(division) = &self.division {
            return self.take_ranges(division, stands_by).await;
        }
        let mut take = cmd("EVAL");
        take.arg(TAKE).arg(1).arg(self.terms.key).arg(&self.name);
        take.arg(millis(self.terms.term)).arg(millis(self.terms.waits)).arg(u8::from(stands_by));
        let mut sent = Instant::now();
        let answer = self.ask_timed(&take, &mut sent).await;
        let answer =
            answer.map(
                |(held, told): (bool, String)| {
                    if held { LeaseAnswer::Held { awaited: told == "1" } } else { LeaseAnswer::Elsewhere(told) }
                },
            );
        (sent, answer)
    }

    /// Ends the term of this process, so that another one need not wait for its end. Has no effect on the term of
    /// another process.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn release(&self) -> Result<(), LeaseFault> {
        if self.is_divided() {
            return self.release_ranges().await;
        }
        let mut release = cmd("EVAL");
        release.arg(RELEASE).arg(1).arg(self.terms.key).arg(&self.name);
        self.ask::<u8>(&release).await.map(|_| ())
    }

    /// Reports the state of this process to those that share the server, for [`PRESENT_FOR`].
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn report(&self, state: &str) -> Result<(), LeaseFault> {
        let mut set = cmd("SET");
        set.arg(keys::process(&self.name)).arg(state).arg("PX").arg(millis(PRESENT_FOR));
        self.ask(&set).await
    }

    /// Returns the report of the process with this name; `None` if it has not reported for [`PRESENT_FOR`].
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn report_of(&self, name: &str) -> Result<Option<String>, LeaseFault> {
        let mut get = cmd("GET");
        get.arg(keys::process(name));
        self.ask(&get).await
    }

    /// Returns the secret of the processes that share the server, and keeps it for [`SHARED_FOR`]. `new` becomes the
    /// secret if there is none.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn shared_secret(&self, new: &SecretString) -> Result<SecretString, LeaseFault> {
        let mut share = cmd("EVAL");
        share.arg(SHARE).arg(1).arg(keys::FORWARDING).arg(new.expose_secret()).arg(millis(SHARED_FOR));
        self.ask::<String>(&share).await.map(SecretString::from)
    }

    /// Deletes the report of this process.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn leave(&self) -> Result<(), LeaseFault> {
        let mut delete = cmd("DEL");
        delete.arg(keys::process(&self.name));
        self.ask::<u8>(&delete).await.map(|_| ())
    }

    /// Returns the name of the process, or of the division, that holds the lease; `None` if it is free.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn holder(&self) -> Result<Option<String>, LeaseFault> {
        let mut holder = cmd("EVAL");
        holder.arg(HOLDER).arg(1).arg(self.terms.key);
        let name: String = self.ask(&holder).await?;
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// Sends one request. Connecting has its own, longer timeout: a server far away may need it.
    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LeaseFault> {
        self.ask_timed(command, &mut Instant::now()).await
    }

    async fn ask_timed<T: FromRedisValue>(&self, command: &Cmd, sent: &mut Instant) -> Result<T, LeaseFault> {
        let failed = |reason: String| format!("redis at {}: a request for the lease: {reason}", self.redis.place);
        let away = |error| LeaseFault::Away(failed(describe(error)));
        let (mut link, number) = self.redis.line.link().await.map_err(away)?;
        *sent = Instant::now();
        let answer = timeout(ANSWER_TIMEOUT, command.query_async(&mut link)).await;
        let fault = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if is_refused(&error) => return Err(LeaseFault::Refused(failed(describe(error)))),
            Ok(Err(error)) => away(error),
            Err(_) => LeaseFault::Away(failed(format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis()))),
        };
        self.redis.line.discard(number).await;
        Err(fault)
    }
}

/// True if the rights of the login do not include the request.
fn is_refused(error: &RedisError) -> bool {
    error.code() == Some("NOPERM")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
