//! The ranges of a bot whose work is divided: each is held by at most one process, below the lease of their division.
//!
//! One record has the lease of the division, in the fields of a single holder (`holder`, `until`), and each range with
//! its own term. Guarantees, beyond those of the lease:
//! - At most one division holds the lease at a time. Its term ends with the last term of its ranges, so a process of
//!   another division, or one that does all the work, waits for all of them.
//! - A process that stands by takes the first free range with one request, for any number of ranges.
//! - A process that holds ranges takes the free ones that no process stands by for, up to an equal share of all.
//! - Ranges move one at a time from a process to one that has at least two fewer, so all processes soon have an equal
//!   share, and then no range moves.
//! - A released range is free immediately. If the server lost the record, a process that stands by waits one term for
//!   the holders.
//! - Fencing tokens of two divisions are not comparable. So the owners of a division end all terms of the others
//!   ([`Lease::end_other_divisions`]) before they read a turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ::redis::{Cmd, cmd};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::owning;
use super::{Lease, LeaseAnswer, LeaseFault, Terms, millis};
use domain::ids::Door;
use domain::keys;
use domain::ownership::{Portion, Portions, RANGES_MAX};
use ports::Peers;
use ports::processes::HeldRange;

/// The division of the bot's work, from the view of one process.
pub(super) struct Division {
    /// The number of ranges, 2 or more.
    pub ranges: u32,
    /// The ranges that this process holds, as far as it knows.
    pub held: Mutex<Portions>,
    /// Orders the requests that change them, so that no renewal takes a range again that was just released.
    changing: tokio::sync::Mutex<()>,
    /// The agreed number of the platform's connections; zero before that. Each renewal restores it in a record that the
    /// server lost.
    pub shards: AtomicU32,
    /// True if this process takes no further ranges, because it ends.
    pub ends: AtomicBool,
    /// True if a request has no answer, so that the server may have given a range to this process.
    pub unanswered: AtomicBool,
}

/// Takes and renews ranges.
const TAKE: &str = include_str!("ranges/take.lua");

/// Chooses a range that the caller gives to another process.
const GIVE: &str = include_str!("ranges/give.lua");

/// Releases one range of the caller, or all.
const RELEASE: &str = include_str!("ranges/release.lua");

/// The time within which a process that stands by asks again, unless it ended: several of its pauses, shorter than a
/// term.
const FRESH: Duration = Duration::from_secs(1);

/// The time for which a process with an equal share lets others take a free range.
const LETS: Duration = Duration::from_millis(300);

// A range whose process died has another one within three seconds.
const _: () = assert!(super::TERM.as_millis() + LETS.as_millis() + super::RENEW_EVERY.as_millis() < 3_000);

/// Key: the record. Returns the server's time in milliseconds, and all fields with their values.
const READ: &str = r"
local clock = redis.call('TIME')
local all = {string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))}
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
    for _, value in ipairs(redis.call('HGETALL', KEYS[1])) do all[#all + 1] = value end
end
return all
";

/// Key: the record. Arguments: the name of the division, a number of connections. Returns the number on which its
/// processes agreed, which is this one if there was none; zero if the division does not hold the lease.
const AGREE: &str = r"
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return 0 end
redis.call('HSETNX', KEYS[1], 'shards', ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'shards')) or 0
";

/// Key: the numbers of ranges of former divisions. Returns them.
const DIVISIONS: &str = r"
if redis.call('TYPE', KEYS[1]).ok ~= 'set' then redis.call('DEL', KEYS[1]) end
return redis.call('SMEMBERS', KEYS[1])
";

/// Key: the mark of a bucket. Argument: its pause in milliseconds. Returns 0 if the caller may begin, which all others
/// may not do until the pause is over, or else the rest of the pause in milliseconds.
const RESERVE: &str = r"
if redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return 0 end
local rest, pause = redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])
if rest < 0 or rest > pause then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    rest = pause
end
return math.max(rest, 1)
";

impl Division {
    /// Returns the name under which the division has the lease.
    fn name(&self) -> String {
        format!("{DIVIDED}{}{RANGES}", self.ranges)
    }

    /// Creates the view of a process that holds no range yet. There are 2 ranges or more.
    pub(super) fn into(ranges: u32) -> Self {
        let (shards, ends, unanswered) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Self {
            ranges,
            held: Mutex::new(Portions::none(ranges)),
            changing: tokio::sync::Mutex::default(),
            shards,
            ends,
            unanswered,
        }
    }

    /// Returns the request of the process with this name for ranges.
    fn taking(&self, terms: Terms, name: &str, stands_by: bool) -> Cmd {
        let held = *self.held.lock();
        let mut take = cmd("EVAL");
        take.arg(TAKE).arg(1).arg(terms.key).arg(name);
        take.arg(millis(terms.term)).arg(millis(terms.waits)).arg(u8::from(stands_by));
        take.arg(self.ranges).arg(self.name()).arg(self.shards.load(Ordering::Relaxed));
        take.arg(u8::from(self.unanswered.swap(true, Ordering::Relaxed))).arg(millis(FRESH));
        let ends = self.ends.load(Ordering::Relaxed);
        take.arg(if ends { -1 } else { i64::try_from(LETS.as_millis()).unwrap_or(-1) });
        for portion in held.iter() {
            take.arg(portion.number);
        }
        take
    }

    /// Records the answer to this request.
    fn taken(&self, (granted, told, ranges): Taken) -> LeaseAnswer {
        self.unanswered.store(false, Ordering::Relaxed);
        if granted < 0 {
            return LeaseAnswer::Elsewhere(told);
        }
        let numbers = ranges.split(',').filter_map(|number| number.parse().ok());
        *self.held.lock() = numbers.fold(Portions::none(self.ranges), Portions::with);
        LeaseAnswer::Held { awaited: told == "1" }
    }

    /// Returns the request of the process with this name to give a range away. The move ends within `lasts`.
    fn giving(&self, terms: Terms, name: &str, lasts: Duration) -> Cmd {
        let mut give = cmd("EVAL");
        give.arg(GIVE).arg(1).arg(terms.key).arg(name).arg(self.ranges).arg(self.name());
        give.arg(millis(terms.waits)).arg(millis(FRESH)).arg(millis(lasts));
        give
    }

    /// Returns the request of the process with this name to release a range; `None`: all.
    fn releasing(&self, terms: Terms, name: &str, only: Option<u32>) -> Cmd {
        let mut release = cmd("EVAL");
        release.arg(RELEASE).arg(1).arg(terms.key).arg(name).arg(self.ranges).arg(self.name());
        release.arg(millis(terms.term)).arg(only.map_or(-1, i64::from));
        release
    }
}

/// The answer of [`TAKE`].
type Taken = (i64, String, String);

const DIVIDED: &str = "the division into ";
const RANGES: &str = " ranges";

impl Lease {
    pub(super) async fn take_ranges(
        &self,
        division: &Division,
        stands_by: bool,
    ) -> (Instant, Result<LeaseAnswer, LeaseFault>) {
        let _changing = division.changing.lock().await;
        let take = division.taking(self.terms, &self.name, stands_by);
        let mut sent = Instant::now();
        let answer = self.ask_timed(&take, &mut sent).await.map(|answer| division.taken(answer));
        (sent, answer)
    }

    /// From now on, this process takes no further ranges: it ends.
    pub fn takes_no_more(&self) {
        if let Some(division) = &self.division {
            division.ends.store(true, Ordering::Relaxed);
        }
    }

    /// Returns a range that this process must give to another one, which has at least two fewer. Until it is
    /// [released](Self::release_one), at most for `lasts`, no other range moves.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn give(&self, lasts: Duration) -> Result<Option<Portion>, LeaseFault> {
        let Some(division) = self.division.as_ref().filter(|division| division.held.lock().count() > 1) else {
            return Ok(None);
        };
        let number: i64 = self.ask(&division.giving(self.terms, &self.name, lasts)).await?;
        Ok(u32::try_from(number).ok().map(|number| Portion { number, of: division.ranges }))
    }

    /// Releases one of the ranges of this process, for the process to which it was given. This process has finished its
    /// last write about it, and does not renew it from now on, also after an error.
    ///
    /// # Errors
    /// See [`LeaseFault`]. The term of the range then ends by itself.
    pub async fn release_one(&self, portion: Portion) -> Result<(), LeaseFault> {
        let Some(division) = &self.division else { return Ok(()) };
        let _changing = division.changing.lock().await;
        {
            let mut held = division.held.lock();
            *held = held.without(portion.number);
        }
        self.ask::<u8>(&division.releasing(self.terms, &self.name, Some(portion.number))).await.map(|_| ())
    }

    /// True if this is the name of the caller's division.
    #[must_use]
    pub fn has_division(&self, holder: &str) -> bool {
        self.division.as_ref().is_some_and(|division| division.name() == holder)
    }

    pub(super) async fn release_ranges(&self) -> Result<(), LeaseFault> {
        let Some(division) = &self.division else { return Ok(()) };
        let release = division.releasing(self.terms, &self.name, None);
        self.ask::<u8>(&release).await.map(|_| ())
    }

    /// Returns the ranges of the division that has the lease; empty if one process has it, or none.
    ///
    /// # Errors
    /// See [`LeaseFault`].
    pub async fn ranges(&self) -> Result<Vec<HeldRange>, LeaseFault> {
        let mut read = cmd("EVAL");
        read.arg(READ).arg(1).arg(self.terms.key);
        Ok(held_ranges(&self.ask::<Vec<String>>(&read).await?))
    }

    /// Ends the terms of all other divisions at these doors, so that the store refuses what their processes still write.
    /// The caller holds the lease, and takes its own tokens afterwards.
    ///
    /// # Errors
    /// See [`LeaseFault`]. A repeated call completes it.
    pub async fn end_other_divisions(&self, doors: &[Door]) -> Result<(), LeaseFault> {
        let own = self.division.as_ref().map_or(1, |division| division.ranges);
        let known = self.divisions().await?;
        // A bot that is not divided leaves no mark of its own.
        let whole = (own > 1).then_some(1);
        for of in known.iter().copied().chain(whole).filter(|of| *of != own) {
            for number in 0..of {
                for door in doors {
                    self.end_term(Portion { number, of }, door).await?;
                }
            }
            if of > 1 {
                self.change_divisions("SREM", of).await?;
            }
        }
        if own > 1 && !known.contains(&own) { self.change_divisions("SADD", own).await } else { Ok(()) }
    }

    /// Returns the numbers of ranges of the divisions on record. What is no such number is passed over.
    async fn divisions(&self) -> Result<Vec<u32>, LeaseFault> {
        let mut read = cmd("EVAL");
        read.arg(DIVISIONS).arg(1).arg(keys::DIVISIONS);
        let known: Vec<String> = self.ask(&read).await?;
        let known = known.iter().filter_map(|of| of.parse().ok());
        Ok(known.filter(|of| (2..=RANGES_MAX).contains(of)).take(RANGES_MAX as usize).collect())
    }

    async fn end_term(&self, portion: Portion, door: &Door) -> Result<(), LeaseFault> {
        let take = owning::taking(&portion.range(door.clone()));
        self.ask::<u64>(&take).await.map(|_| ())
    }

    async fn change_divisions(&self, how: &str, of: u32) -> Result<(), LeaseFault> {
        let mut change = cmd(how);
        change.arg(keys::DIVISIONS).arg(of);
        self.ask::<u32>(&change).await.map(|_| ())
    }
}

#[async_trait]
impl Peers for Lease {
    async fn agree_on_shards(&self, proposed: u32) -> Result<u32, String> {
        let Some(division) = &self.division else { return Ok(proposed) };
        let mut agree = cmd("EVAL");
        agree.arg(AGREE).arg(1).arg(self.terms.key).arg(division.name()).arg(proposed);
        let agreed: u32 = self.ask(&agree).await.map_err(|fault| fault.to_string())?;
        if agreed == 0 {
            return Err("another division holds the lease".to_owned());
        }
        // Other numbers would give a guild and its shard to different processes.
        if !agreed.is_multiple_of(division.ranges) || agreed > SHARDS_MAX {
            return Err(format!("the record of the lease names {agreed} shards for {} ranges", division.ranges));
        }
        division.shards.store(agreed, Ordering::Relaxed);
        Ok(agreed)
    }

    async fn reserve_identify(&self, bucket: u32, pause: Duration) -> Result<Duration, String> {
        let mut reserve = cmd("EVAL");
        reserve.arg(RESERVE).arg(1).arg(keys::identify(bucket)).arg(millis(pause));
        let rest: u64 = self.ask(&reserve).await.map_err(|fault| fault.to_string())?;
        Ok(Duration::from_millis(rest))
    }
}

/// Reads the answer of [`READ`].
fn held_ranges(told: &[String]) -> Vec<HeldRange> {
    let Some((now, fields)) = told.split_first() else { return Vec::new() };
    let fields: HashMap<&str, &str> = fields.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let field = |name: &str| fields.get(name).copied();
    let time = |name: &str| field(name).and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    let now = now.parse::<u64>().unwrap_or(0);
    let of = field("holder").and_then(|name| name.strip_prefix(DIVIDED)?.strip_suffix(RANGES)?.parse::<u32>().ok());
    let range = |number: u32, of: u32| {
        let holder = field(&format!("holder:{number}")).filter(|name| !name.is_empty());
        let holder = holder.filter(|_| time(&format!("until:{number}")) > now).map(str::to_owned);
        let age = Duration::from_millis(now.saturating_sub(time(&format!("since:{number}"))));
        let moves = time(&format!("moves:{number}"));
        HeldRange { portion: Portion { number, of }, holder, age, moves }
    };
    of.filter(|of| *of <= RANGES_MAX).map_or_else(Vec::new, |of| (0..of).map(|number| range(number, of)).collect())
}

/// The most connections of a platform: Discord's largest bots have some thousands.
const SHARDS_MAX: u32 = 100_000;

#[cfg(test)]
mod simulation;
