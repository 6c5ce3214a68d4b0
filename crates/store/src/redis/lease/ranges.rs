//! The ranges of a bot whose work is divided: each is held by at most one process, below the lease of their division.
//!
//! One record has the lease of the division, in the fields of a single holder (`holder`, `until`), and each range with
//! its own term. Guarantees, beyond those of the lease:
//! - At most one division holds the lease at a time. Its term ends with the last term of its ranges, so a process of
//!   another division, or one that does all the work, waits for all of them.
//! - A process that stands by takes the first free range with one request, for any number of ranges.
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
use domain::ownership::{Portion, RANGES_MAX};
use ports::Peers;
use ports::processes::HeldRange;

/// The division of the bot's work, from the view of one process.
pub(super) struct Division {
    /// The number of ranges, 2 or more.
    pub ranges: u32,
    /// The range that this process took. It never takes another one.
    pub held: Mutex<Option<u32>>,
    /// The agreed number of the platform's connections; zero before that. Each renewal restores it in a record that the
    /// server lost.
    pub shards: AtomicU32,
    /// True if a request has no answer, so that the server may have given a range to this process.
    pub unanswered: AtomicBool,
}

/// Key: the record. Arguments: the name of the caller, the duration of a term and the time for which a process that
/// stands by is remembered, both in milliseconds, 1 if the caller stands by, the number of ranges, the name of the
/// division, the range that the caller holds (-1: any), the agreed number of connections (0: unknown), 1 if the caller may
/// hold a range without knowing it. Returns the range, and 1 if another process stands by; or -1 and the holder. A
/// renewal costs the same for any number of ranges.
///
/// `next` is a time before which no range becomes free without a release, because renewals only extend terms. Until then,
/// a request of a process that stands by costs the same for any number of ranges, too.
///
/// If an active process begins a record that was not released, the server may have lost an earlier one: until `grace`, a
/// process that stands by takes no range without a known holder.
const TAKE: &str = r"
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local term, ranges, patient, mine = tonumber(ARGV[2]), tonumber(ARGV[5]), ARGV[4] == '1', tonumber(ARGV[7])
local told = {}
local function ends(field) return math.min(tonumber(told[field] or 0) or 0, now + term) end
local function text(time) return string.format('%.0f', time) end
local function waits(holder)
    redis.call('HSET', KEYS[1], 'waiting', ARGV[1], 'waits_until', text(now + ARGV[3]))
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return {-1, holder}
end
local function read(fields)
    for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do told[fields[i]] = value or nil end
end
if mine >= 0 then
    read({'holder', 'until', 'released', 'waiting', 'waits_until', 'holder:' .. mine, 'until:' .. mine})
else
    read({'holder', 'next'})
    local soonest = tonumber(told.next or 0) or 0
    if patient and ARGV[9] == '0' and told.holder == ARGV[6] and now < soonest and soonest <= now + term then
        return waits(ARGV[6])
    end
    local flat = redis.call('HGETALL', KEYS[1])
    for i = 1, #flat, 2 do told[flat[i]] = flat[i + 1] end
end
local holder = told.holder
if not holder and not told.released and patient then
    holder, told['until'] = '', text(now + term)
    redis.call('HSET', KEYS[1], 'holder', holder, 'until', told['until'])
end
if holder and holder ~= ARGV[6] and ends('until') > now and (holder ~= '' or patient) then
    redis.call('HSET', KEYS[1], 'until', text(ends('until')))
    return waits(holder)
end
if holder ~= ARGV[6] then
    local lost = (holder or '') == '' and not told.released and not patient
    local grace = lost and now + term or 0
    told = {waiting = told.waiting, waits_until = told.waits_until, grace = text(grace)}
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'grace', told.grace)
    if told.waiting then redis.call('HSET', KEYS[1], 'waiting', told.waiting, 'waits_until', told.waits_until or '0') end
end
-- A term that ends later than one term from now, because the clock was set back, is shortened once.
local function shorten(field)
    if (tonumber(told[field] or 0) or 0) > now + term then
        told[field] = text(now + term)
        redis.call('HSET', KEYS[1], field, told[field])
    end
end
local function held(k) return told['holder:' .. k] and ends('until:' .. k) > now end
local found = nil
if mine >= 0 then
    shorten('until:' .. mine)
    if held(mine) and told['holder:' .. mine] ~= ARGV[1] then return {-1, told['holder:' .. mine]} end
    found = mine
else
    shorten('grace')
    for k = ranges - 1, 0, -1 do
        shorten('until:' .. k)
        local name = told['holder:' .. k]
        if not held(k) and (name or not patient or ends('grace') <= now) then found = k end
    end
    for k = 0, ranges - 1 do
        if held(k) and told['holder:' .. k] == ARGV[1] then found = k end
    end
end
if mine < 0 then
    local soonest = now + term
    for k = 0, ranges - 1 do
        if held(k) then
            soonest = math.min(soonest, ends('until:' .. k))
        elseif k ~= found then
            -- A range that had a holder is free now; the others may still have one until the end of the grace.
            soonest = math.min(soonest, told['holder:' .. k] and now or ends('grace'))
        end
    end
    redis.call('HSET', KEYS[1], 'next', text(soonest))
end
if not found then return waits(ARGV[6]) end
if told['holder:' .. found] ~= ARGV[1] then redis.call('HSET', KEYS[1], 'since:' .. found, text(now)) end
local over = text(now + term)
redis.call('HDEL', KEYS[1], 'released')
redis.call('HSET', KEYS[1], 'holder', ARGV[6], 'until', over, 'holder:' .. found, ARGV[1], 'until:' .. found, over)
if ARGV[8] ~= '0' then redis.call('HSETNX', KEYS[1], 'shards', ARGV[8]) end
local waiting = told.waiting
if waiting == ARGV[1] then
    redis.call('HDEL', KEYS[1], 'waiting', 'waits_until')
    waiting = nil
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {found, waiting and (tonumber(told.waits_until or 0) or 0) > now and '1' or '0'}
";

/// Key: the record. Arguments: the name of the caller, the number of ranges, the name of the division. Ends the terms of
/// the caller, and the term of the division with its last range; forgets that the caller stands by.
const RELEASE: &str = r"
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = redis.call('HMGET', KEYS[1], 'holder', 'waiting', 'waits_until')
if told[2] == ARGV[1] then redis.call('HDEL', KEYS[1], 'waiting', 'waits_until') end
if told[1] ~= ARGV[3] then return 1 end
local last, held = now, false
for k = 0, ARGV[2] - 1 do
    local range = redis.call('HMGET', KEYS[1], 'holder:' .. k, 'until:' .. k)
    if range[1] == ARGV[1] then
        held = true
        redis.call('HSET', KEYS[1], 'holder:' .. k, '', 'until:' .. k, '0')
    elseif range[1] then
        last = math.max(last, tonumber(range[2] or 0) or 0)
    end
end
if not held then return 1 end
redis.call('HDEL', KEYS[1], 'next')
if last > now then
    redis.call('HSET', KEYS[1], 'until', string.format('%.0f', last))
else
    redis.call('HDEL', KEYS[1], 'holder', 'until')
    if told[2] and told[2] ~= ARGV[1] and (tonumber(told[3] or 0) or 0) > now then
        redis.call('HSET', KEYS[1], 'released', '1')
    end
end
return 1
";

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
        let (held, shards, unanswered) = (Mutex::new(None), AtomicU32::new(0), AtomicBool::new(false));
        Self { ranges, held, shards, unanswered }
    }

    /// Returns the request of the process with this name for a range.
    fn taking(&self, terms: Terms, name: &str, stands_by: bool) -> Cmd {
        let held = *self.held.lock();
        let mut take = cmd("EVAL");
        take.arg(TAKE).arg(1).arg(terms.key).arg(name);
        take.arg(millis(terms.term)).arg(millis(terms.waits)).arg(u8::from(stands_by));
        take.arg(self.ranges).arg(self.name()).arg(held.map_or(-1, i64::from));
        take.arg(self.shards.load(Ordering::Relaxed)).arg(u8::from(self.unanswered.swap(true, Ordering::Relaxed)));
        take
    }

    /// Records the answer to this request.
    fn taken(&self, (range, told): (i64, String)) -> LeaseAnswer {
        self.unanswered.store(false, Ordering::Relaxed);
        let Ok(range) = u32::try_from(range) else { return LeaseAnswer::Elsewhere(told) };
        *self.held.lock() = Some(range);
        LeaseAnswer::Held { awaited: told == "1" }
    }

    /// Returns the request of the process with this name to end its terms.
    fn releasing(&self, terms: Terms, name: &str) -> Cmd {
        let mut release = cmd("EVAL");
        release.arg(RELEASE).arg(1).arg(terms.key).arg(name).arg(self.ranges).arg(self.name());
        release
    }
}

const DIVIDED: &str = "the division into ";
const RANGES: &str = " ranges";

impl Lease {
    pub(super) async fn take_range(
        &self,
        division: &Division,
        stands_by: bool,
    ) -> (Instant, Result<LeaseAnswer, LeaseFault>) {
        let take = division.taking(self.terms, &self.name, stands_by);
        let mut sent = Instant::now();
        let answer = self.ask_timed(&take, &mut sent).await.map(|answer| division.taken(answer));
        (sent, answer)
    }

    /// True if this is the name of the caller's division.
    #[must_use]
    pub fn has_division(&self, holder: &str) -> bool {
        self.division.as_ref().is_some_and(|division| division.name() == holder)
    }

    pub(super) async fn release_range(&self) -> Result<(), LeaseFault> {
        let Some(division) = &self.division else { return Ok(()) };
        let release = division.releasing(self.terms, &self.name);
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
        HeldRange { portion: Portion { number, of }, holder, age }
    };
    of.filter(|of| *of <= RANGES_MAX).map_or_else(Vec::new, |of| (0..of).map(|number| range(number, of)).collect())
}

/// The most connections of a platform: Discord's largest bots have some thousands.
const SHARDS_MAX: u32 = 100_000;

#[cfg(test)]
mod simulation;
