//! The usage ledger: the counters that a finished turn increments, and the sums read from them.
//!
//! There is one counter per UTC day and one for all time, each with the numbers of [`KINDS`] in this order. Earlier
//! versions stored each number under its own key; those keys are read until they expire. Counts are whole numbers;
//! money is in millionths of a dollar at the prices of the row that answered. Tokens of rows without prices have no
//! cost; they are counted separately and never estimated. The Python bot's counters (tokens in total and per day) are
//! also updated, so that its counts remain in the sums.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Moment, ToSpan};

pub use super::keys::ledger::Account;

use super::completion::Usage;
use super::counter::{Counter, NUMBERS};
use super::effort::{self, Effort};
use super::ids::{Door, Person, Timestamp};
use super::keys::ledger as keys;
use super::model::Price;
use super::policy::Trigger;
use super::turn::Turn;

/// The account of interjections.
pub const INTERJECTIONS: &str = "interjections";

/// The account of timers and webhooks.
pub const TRIGGERS: &str = "triggers";

/// The account of the status line.
pub const PRESENCE: &str = "presence";

/// The account of summaries of conversations.
pub const SUMMARIES: &str = "summaries";

/// The number of days in a week's sums, including today.
const WEEK: usize = 7;

/// Maximum number of days summed at once: the lifetime of daily counters.
const DAYS_MOST: usize = 35;

type Count = fn(&mut Tally) -> &mut u64;

/// The counted quantities in their order in a counter: the name in keys of earlier versions, and the field of a
/// tally.
const KINDS: [(&str, Count); NUMBERS] = [
    ("in", |tally| &mut tally.tokens_in),
    ("out", |tally| &mut tally.tokens_out),
    ("cached", |tally| &mut tally.cached),
    ("messages", |tally| &mut tally.messages),
    ("micros", |tally| &mut tally.micros),
    ("unpriced", |tally| &mut tally.unpriced),
];

/// One increment of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Increment {
    /// The key of the counter.
    pub key: String,
    /// The amount.
    pub by: Counter,
    /// The TTL from now on. `None`: no expiry.
    pub ttl: Option<Duration>,
}

/// The usage of an account in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All tokens, input and output, including those counted only by the Python bot.
    pub tokens: u64,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Input tokens served from the provider's cache; included in `tokens_in`.
    pub cached: u64,
    /// Messages for which a model was asked.
    pub messages: u64,
    /// Cost in millionths of a dollar, for tokens with known prices.
    pub micros: u64,
    /// Tokens without known prices, not included in `micros`.
    pub unpriced: u64,
}

impl Tally {
    /// Creates the tally of one answered message.
    #[must_use]
    pub fn of(effort: &Effort) -> Self {
        let Usage { prompt, completion, cached, .. } = effort.usage;
        let tokens = prompt.saturating_add(completion);
        let Effort { micros, unpriced, .. } = *effort;
        Self { tokens, tokens_in: prompt, tokens_out: completion, cached, messages: 1, micros, unpriced }
    }

    /// Returns the cost in dollars, for tokens with known prices.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        effort::dollars(self.micros)
    }

    /// True if nothing was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another tally.
    pub fn add(&mut self, mut other: Self) {
        for (_, field) in KINDS {
            *field(self) = field(self).saturating_add(*field(&mut other));
        }
        self.tokens = self.tokens.saturating_add(other.tokens);
    }

    /// Applies the Python bot's counter, which includes the tokens of this program.
    fn with_legacy(mut self, tokens: u64) -> Self {
        self.tokens = tokens.max(self.tokens_in.saturating_add(self.tokens_out));
        self
    }
}

/// The usage of one member in one community.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Today, in UTC.
    pub today: Tally,
    /// The last seven days, today included.
    pub week: Tally,
    /// All time. Counts of the Python bot are in `tokens` only.
    pub total: Tally,
}

/// The usage on some days: total, per member, and by the bot itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// All usage, including the bot's own; messages count only those of members.
    pub total: Tally,
    /// The members, most tokens first.
    pub members: Vec<(Person, Tally)>,
    /// The bot's own purposes by name.
    pub own: Vec<(String, Tally)>,
}

// === Writing ===

/// Adds one call to an effort, at the price of the row that answered.
pub fn charge(effort: &mut Effort, price: Option<Price>, usage: Usage) {
    match price {
        Some(price) => effort.micros = effort.micros.saturating_add(price.micros(usage)),
        None => effort.unpriced = effort.unpriced.saturating_add(usage.prompt.saturating_add(usage.completion)),
    }
}

/// Returns the increments of a finished turn; empty if no model was asked. Apply them once, atomically with the
/// record that closes the turn.
#[must_use]
pub fn writes(turn: &Turn, effort: &Effort, now: Timestamp) -> Vec<Increment> {
    if effort.model.is_none() && effort.usage == Usage::default() {
        return Vec::new();
    }
    of_turn(turn, Tally::of(effort), now)
}

/// Returns the increments of what a turn used after this earlier state, with which its message was counted; empty if it
/// used nothing since.
#[must_use]
pub fn writes_since(turn: &Turn, effort: &Effort, earlier: &Effort, now: Timestamp) -> Vec<Increment> {
    let later = effort.since(earlier);
    if later.usage.total() == 0 {
        return Vec::new();
    }
    of_turn(turn, Tally { messages: 0, ..Tally::of(&later) }, now)
}

fn of_turn(turn: &Turn, tally: Tally, now: Timestamp) -> Vec<Increment> {
    let guild = turn.guild.as_deref();
    match own_purpose(turn.trigger) {
        Some(purpose) => own(&turn.person.door, guild, purpose, tally, now),
        None => of_member(&turn.person, guild, tally, now),
    }
}

/// Returns the increments for a member's usage in a community.
#[must_use]
pub fn of_member(person: &Person, guild: Option<&str>, tally: Tally, now: Timestamp) -> Vec<Increment> {
    let mut writes = ours(&person.door, guild, &member(person), tally, now);
    if let Some(guild) = guild {
        writes.push(Increment { key: keys::counted(person, guild), by: Counter::from(1), ttl: Some(keys::ALL_TTL) });
        writes.extend(legacy(person, guild, tally.tokens, now));
    }
    writes
}

/// Returns the increments for the bot's own usage, such as [`PRESENCE`].
#[must_use]
pub fn own(door: &Door, guild: Option<&str>, purpose: &str, tally: Tally, now: Timestamp) -> Vec<Increment> {
    ours(door, guild, &Account::Own(purpose.to_owned()), tally, now)
}

/// Returns the key of the bot's own usage for a purpose today, in UTC; [`tokens`] reads its text.
#[must_use]
pub fn own_today(door: &Door, purpose: &str, now: Timestamp) -> String {
    keys::counter(&date(now).to_string(), door, None, &Account::Own(purpose.to_owned()))
}

/// Returns the tokens of a counter, input and output. Unreadable text counts as zero.
#[must_use]
pub fn tokens(text: &str) -> u64 {
    let tally = packed(text);
    tally.tokens_in.saturating_add(tally.tokens_out)
}

fn ours(door: &Door, guild: Option<&str>, account: &Account, mut tally: Tally, now: Timestamp) -> Vec<Increment> {
    let today = date(now).to_string();
    let by = Counter(KINDS.map(|(_, field)| whole(*field(&mut tally))));
    let mut writes = Vec::with_capacity(4);
    for (period, ttl) in [(today.as_str(), keys::DAY_TTL), (keys::ALL, keys::ALL_TTL)] {
        writes.push(Increment { key: keys::counter(period, door, guild, account), by, ttl: Some(ttl) });
    }
    writes
}

fn legacy(person: &Person, guild: &str, tokens: u64, now: Timestamp) -> Vec<Increment> {
    if tokens == 0 {
        return Vec::new();
    }
    let by = Counter::from(whole(tokens));
    let day = date(now).to_string();
    vec![
        Increment { key: keys::total(person, guild), by, ttl: None },
        Increment { key: keys::daily(person, guild, &day), by, ttl: Some(keys::DAILY_TTL) },
    ]
}

/// Returns the bot's own account for turns that no member requested.
#[must_use]
pub const fn own_purpose(trigger: Trigger) -> Option<&'static str> {
    match trigger {
        Trigger::Reply | Trigger::Mention | Trigger::Alias | Trigger::Direct => None,
        Trigger::Interjection => Some(INTERJECTIONS),
        Trigger::Timer | Trigger::Webhook => Some(TRIGGERS),
    }
}

// === Reading ===

/// Returns the counters that [`sums`] reads for this member.
#[must_use]
pub fn keys_of_sums(person: &Person, guild: Option<&str>, now: Timestamp) -> Vec<String> {
    keys_of(person, guild, last_days(now, WEEK))
}

/// Returns every ledger key that may exist about this member in this community, for `/forget`.
#[must_use]
pub fn every_key(person: &Person, guild: Option<&str>, now: Timestamp) -> Vec<String> {
    let mut keys = keys_of(person, guild, last_days(now, DAYS_MOST + 2));
    keys.extend(guild.into_iter().flat_map(|guild| [keys::log(person, guild), keys::counted(person, guild)]));
    keys
}

/// Returns a member's usage from the texts of the counters. Unreadable texts count as zero.
#[must_use]
pub fn sums(person: &Person, guild: Option<&str>, now: Timestamp, text: impl Fn(&str) -> Option<String>) -> Sums {
    let account = member(person);
    let number = |key: String| text(&key).as_deref().and_then(count).unwrap_or(0);
    let period = |period: &str| {
        let counter = keys::counter(period, &person.door, guild, &account);
        let mut tally = text(&counter).as_deref().map(packed).unwrap_or_default();
        for (kind, field) in KINDS {
            let before = number(keys::counter_of_kind(&counter, kind));
            *field(&mut tally) = field(&mut tally).saturating_add(before);
        }
        tally
    };
    let today = date(now).to_string();
    let mut sums = Sums::default();
    for day in last_days(now, WEEK) {
        let day = day.to_string();
        let known = guild.map_or(0, |guild| number(keys::daily(person, guild, &day)));
        let tally = period(&day).with_legacy(known);
        if day == today {
            sums.today = tally;
        }
        sums.week.add(tally);
    }
    let known = guild.map_or(0, |guild| number(keys::total(person, guild)));
    sums.total = period(keys::ALL).with_legacy(known);
    sums
}

/// Returns the usage on these days, from the rows under [`of_day`] and, for the Python bot's door,
/// [`keys::DAILY_PREFIX`]. Rows of other days are ignored.
#[must_use]
pub fn overview(days: &[Date], rows: &[(String, String)], legacy_door: &Door) -> Overview {
    let days: BTreeSet<String> = days.iter().map(Date::to_string).collect();
    // By day, community, door and account, each with the Python bot's counter.
    let mut tallies: BTreeMap<_, (Tally, u64)> = BTreeMap::new();
    for (key, text) in rows {
        if let Some(entry) = keys::parse(key).filter(|entry| days.contains(&entry.period)) {
            let about = (entry.period, entry.guild, entry.door, entry.account);
            let (tally, _) = tallies.entry(about).or_default();
            tally.add(match entry.kind {
                Some(kind) => of_kind(&kind, count(text).unwrap_or(0)),
                None => packed(text),
            });
        } else if let Some(number) = count(text)
            && let Some((guild, day, person)) = keys::parse_daily(key).filter(|(_, day, _)| days.contains(*day))
        {
            let account = Account::Member(person.to_owned());
            let about = (day.to_owned(), Some(guild.to_owned()), legacy_door.as_str().to_owned(), account);
            tallies.entry(about).or_default().1 = number;
        }
    }
    let mut total = Tally::default();
    let (mut members, mut own) = (BTreeMap::<Person, Tally>::new(), BTreeMap::<String, Tally>::new());
    for ((_, _, door, account), (tally, known)) in tallies {
        let tally = tally.with_legacy(known);
        let messages = if matches!(account, Account::Own(_)) { 0 } else { tally.messages };
        total.add(Tally { messages, ..tally });
        match account {
            Account::Own(purpose) => own.entry(purpose).or_default().add(tally),
            Account::Member(id) => {
                if let Ok(person) = format!("{door}:{id}").parse() {
                    members.entry(person).or_default().add(tally);
                }
            }
        }
    }
    let mut members: Vec<_> = members.into_iter().collect();
    members.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.tokens));
    Overview { total, members, own: own.into_iter().collect() }
}

/// Returns the key prefix of all counters of a day.
#[must_use]
pub fn of_day(day: Date) -> String {
    keys::of_period(&day.to_string())
}

/// Returns the UTC day of a time.
#[must_use]
pub fn date(at: Timestamp) -> Date {
    let moment = i64::try_from(at.0).ok().and_then(|millis| Moment::from_millisecond(millis).ok());
    moment.unwrap_or(Moment::UNIX_EPOCH).to_zoned(TimeZone::UTC).date()
}

/// Returns the days of a period, last first; at most as many as are stored.
#[must_use]
pub fn days(from: Timestamp, until: Timestamp) -> Vec<Date> {
    let first = date(from);
    last_days(until, DAYS_MOST).take_while(|day| *day >= first).collect()
}

fn last_days(now: Timestamp, many: usize) -> impl Iterator<Item = Date> {
    let mut next = Some(date(now));
    std::iter::from_fn(move || {
        let day = next?;
        next = day.checked_sub(1.day()).ok();
        Some(day)
    })
    .take(many)
}

fn keys_of(person: &Person, guild: Option<&str>, days: impl Iterator<Item = Date>) -> Vec<String> {
    let account = member(person);
    let days: Vec<String> = days.map(|day| day.to_string()).collect();
    let mut found = Vec::new();
    for period in days.iter().map(String::as_str).chain([keys::ALL]) {
        let counter = keys::counter(period, &person.door, guild, &account);
        found.extend(KINDS.map(|(kind, _)| keys::counter_of_kind(&counter, kind)));
        found.push(counter);
    }
    if let Some(guild) = guild {
        found.push(keys::total(person, guild));
        found.extend(days.iter().map(|day| keys::daily(person, guild, day)));
    }
    found
}

fn member(person: &Person) -> Account {
    Account::Member(person.id.to_string())
}

/// Parses the text of a counter. Unreadable text counts as zero.
fn packed(text: &str) -> Tally {
    let Counter(numbers) = Counter::read(text).unwrap_or_default();
    let mut tally = Tally::default();
    for ((_, field), number) in KINDS.into_iter().zip(numbers) {
        *field(&mut tally) = u64::try_from(number).unwrap_or(0);
    }
    tally
}

/// Converts a counter of one kind, as written by earlier versions.
fn of_kind(kind: &str, number: u64) -> Tally {
    let mut tally = Tally::default();
    if let Some((_, field)) = KINDS.iter().find(|(known, _)| *known == kind) {
        *field(&mut tally) = number;
    }
    tally
}

fn count(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
