//! The usage ledger: what a finished turn adds to whose counters, and how counters are read.
//!
//! Each day in UTC has its counter, and so has all time: the numbers of [`KINDS`], in this order. Earlier versions kept each number in
//! a key of its own; such keys are read until their life ends. Counts are whole numbers; money is millionths of a dollar by the
//! prices of the row that answered. Tokens of rows without prices have no cost: they are counted apart, and never guessed.
//! The Python bot's own counters (tokens of all time and of a day) go on beside ours, so that what it counted stays in the sums.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Moment, ToSpan};

pub use super::keys::ledger::Account;

use super::completion::Usage;
use super::counter::{Counter, NUMBERS};
use super::effort::Effort;
use super::ids::{Door, Person, Timestamp};
use super::keys::ledger as keys;
use super::model::Price;
use super::policy::Trigger;
use super::turn::Turn;

/// What the bot spends on messages that nobody asked for.
pub const INTERJECTIONS: &str = "interjections";

/// What the bot spends on timers and webhooks.
pub const TRIGGERS: &str = "triggers";

/// What the bot spends on its status line.
pub const PRESENCE: &str = "presence";

/// The days of a week's sums, today included.
const WEEK: usize = 7;

/// The most days that are summed at once: as long as a day's counters live.
const DAYS_MOST: usize = 35;

/// Where a count stands in a tally.
type Count = fn(&mut Tally) -> &mut u64;

/// What is counted, by its place in a counter: the name that it has in keys of earlier versions, and where it stands in a tally.
const KINDS: [(&str, Count); NUMBERS] = [
    ("in", |tally| &mut tally.tokens_in),
    ("out", |tally| &mut tally.tokens_out),
    ("cached", |tally| &mut tally.cached),
    ("messages", |tally| &mut tally.messages),
    ("micros", |tally| &mut tally.micros),
    ("unpriced", |tally| &mut tally.unpriced),
];

/// One change of a counter: the store's increment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Increment {
    /// The counter.
    pub key: String,
    /// How much.
    pub by: Counter,
    /// Its life from now on; none for no end.
    pub ttl: Option<Duration>,
}

/// What somebody used in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All tokens, in and out, also those that only the Python bot counted.
    pub tokens: u64,
    /// Tokens in.
    pub tokens_in: u64,
    /// Tokens out.
    pub tokens_out: u64,
    /// Tokens in that the provider had cached; also in `tokens_in`.
    pub cached: u64,
    /// Messages that a model was asked about.
    pub messages: u64,
    /// Millionths of a dollar, as far as prices are known.
    pub micros: u64,
    /// Tokens whose rows have no prices: they are not in `micros`.
    pub unpriced: u64,
}

impl Tally {
    /// One answered message.
    #[must_use]
    pub fn of(effort: &Effort) -> Self {
        let Usage { prompt, completion, cached, .. } = effort.usage;
        let tokens = prompt.saturating_add(completion);
        let Effort { micros, unpriced, .. } = *effort;
        Self { tokens, tokens_in: prompt, tokens_out: completion, cached, messages: 1, micros, unpriced }
    }

    /// The cost in dollars, as far as prices are known.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "millionths of dollars are far below 2^52")]
    pub fn dollars(&self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// Nothing was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    pub fn add(&mut self, mut other: Self) {
        for (_, field) in KINDS {
            *field(self) = field(self).saturating_add(*field(&mut other));
        }
        self.tokens = self.tokens.saturating_add(other.tokens);
    }

    /// The tokens of the Python bot's counter, which holds ours too.
    fn with_legacy(mut self, tokens: u64) -> Self {
        self.tokens = tokens.max(self.tokens_in.saturating_add(self.tokens_out));
        self
    }
}

/// What one member used in one community.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Today, in UTC.
    pub today: Tally,
    /// The last seven days, today included.
    pub week: Tally,
    /// Ever. What the Python bot counted is in `tokens` only.
    pub total: Tally,
}

/// What was used on some days: everybody together, each member, and the bot by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// Everything, also what the bot used by itself; but its messages are those of members.
    pub total: Tally,
    /// Each member, the one with the most tokens first.
    pub members: Vec<(Person, Tally)>,
    /// The bot's own purposes by name.
    pub own: Vec<(String, Tally)>,
}

// === Writing ===

/// Adds one call to an effort, priced by the row that answered it.
pub fn charge(effort: &mut Effort, price: Option<Price>, usage: Usage) {
    match price {
        Some(price) => effort.micros = effort.micros.saturating_add(price.micros(usage)),
        None => effort.unpriced = effort.unpriced.saturating_add(usage.prompt.saturating_add(usage.completion)),
    }
}

/// What a finished turn adds; nothing when no model was asked. To be applied once, with the record that closes the turn.
#[must_use]
pub fn writes(turn: &Turn, effort: &Effort, now: Timestamp) -> Vec<Increment> {
    if effort.model.is_none() && effort.usage == Usage::default() {
        return Vec::new();
    }
    let (tally, guild) = (Tally::of(effort), turn.guild.as_deref());
    match own_purpose(turn.trigger) {
        Some(purpose) => own(&turn.person.door, guild, purpose, tally, now),
        None => of_member(&turn.person, guild, tally, now),
    }
}

/// What a member spent in a community.
#[must_use]
pub fn of_member(person: &Person, guild: Option<&str>, tally: Tally, now: Timestamp) -> Vec<Increment> {
    let mut writes = ours(&person.door, guild, &member(person), tally, now);
    writes.extend(guild.into_iter().flat_map(|guild| legacy(person, guild, tally.tokens, now)));
    writes
}

/// What the bot spent by itself for this purpose, such as [`PRESENCE`].
#[must_use]
pub fn own(door: &Door, guild: Option<&str>, purpose: &str, tally: Tally, now: Timestamp) -> Vec<Increment> {
    ours(door, guild, &Account::Own(purpose.to_owned()), tally, now)
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

/// On whose own account a turn goes when no member asked for it.
const fn own_purpose(trigger: Trigger) -> Option<&'static str> {
    match trigger {
        Trigger::Reply | Trigger::Mention | Trigger::Alias | Trigger::Direct => None,
        Trigger::Interjection => Some(INTERJECTIONS),
        Trigger::Timer | Trigger::Webhook => Some(TRIGGERS),
    }
}

// === Reading ===

/// The counters that [`sums`] of this member reads.
#[must_use]
pub fn keys_of_sums(person: &Person, guild: Option<&str>, now: Timestamp) -> Vec<String> {
    keys_of(person, guild, last_days(now, WEEK))
}

/// Every key of the ledger that may exist about this member in this community, for a member who wants to be forgotten.
#[must_use]
pub fn every_key(person: &Person, guild: Option<&str>, now: Timestamp) -> Vec<String> {
    let mut keys = keys_of(person, guild, last_days(now, DAYS_MOST + 2));
    keys.extend(guild.map(|guild| keys::log(person, guild)));
    keys
}

/// What this member used, from the texts of its counters; a text that is no number counts as nothing.
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

/// What was used on these days, from the rows of [`of_day`] and, for the door that the Python bot knew, of
/// [`keys::DAILY_PREFIX`]. Rows of other days are passed over.
#[must_use]
pub fn overview(days: &[Date], rows: &[(String, String)], legacy_door: &Door) -> Overview {
    let days: BTreeSet<String> = days.iter().map(Date::to_string).collect();
    // By day, community, door and account; beside each what the Python bot's counter says.
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

/// How all our counters of a day begin.
#[must_use]
pub fn of_day(day: Date) -> String {
    keys::of_period(&day.to_string())
}

/// The day of a moment, in UTC.
#[must_use]
pub fn date(at: Timestamp) -> Date {
    let moment = i64::try_from(at.0).ok().and_then(|millis| Moment::from_millisecond(millis).ok());
    moment.unwrap_or(Moment::UNIX_EPOCH).to_zoned(TimeZone::UTC).date()
}

/// The days that a time touches, the last one first; at most as many as are kept.
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

/// What the text of a counter says; one that says nothing counts as nothing.
fn packed(text: &str) -> Tally {
    let Counter(numbers) = Counter::read(text).unwrap_or_default();
    let mut tally = Tally::default();
    for ((_, field), number) in KINDS.into_iter().zip(numbers) {
        *field(&mut tally) = u64::try_from(number).unwrap_or(0);
    }
    tally
}

/// What a counter of one kind says, as earlier versions wrote it.
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
