//! Lasting failures of tool servers and built-in tools: the record of failing parts, and the decision when operators
//! get a notice.
//!
//! The record is stored, so each failure and each recovery is told once, also after a restart and by another process.
//! A notice tells the difference between the record and the present state, so a notice that was not posted loses
//! nothing: the next one tells the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Timestamp;

/// The maximum number of notices in one UTC day. Parts that fail and recover in turn cause no further ones.
pub const NOTICES_A_DAY: u32 = 10;
/// The maximum number of failing parts in the record; further ones are recorded once there is room.
pub const PARTS_MAX: usize = 100;
/// The maximum length of a stored reason, in characters.
const REASON_MAX: usize = 200;
/// The error of a time that is computed from an age: the record is not rewritten for less.
const CLOCK_ERROR: Duration = Duration::from_secs(60);
/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1_000;

/// A part that may fail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPart {
    /// The tool server of this name.
    Server(String),
    /// The built-in tool of this name.
    BuiltIn(String),
}

/// The present state of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartHealth {
    /// It works.
    Works,
    /// It may work or fail: it changed just now, or was not used since the start.
    Unknown,
    /// It fails.
    Fails {
        /// The time of the first evidence.
        since: Timestamp,
        /// The time of the last evidence.
        seen: Timestamp,
        /// The reason of the last failure.
        reason: String,
    },
}

/// A failing part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// The part.
    pub part: ToolPart,
    /// The time of the first evidence, of this process or an earlier one.
    pub since: Timestamp,
    /// The reason of the last failure before the notice.
    pub reason: String,
    /// True if operators were told.
    told: bool,
}

/// The record of failing parts, and the number of notices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outages {
    failing: Vec<Outage>,
    /// The start of this record, which distinguishes the names of its notices from those of an earlier record.
    began: Timestamp,
    /// The number of attempts to post a notice since then.
    attempts: u64,
    /// The day of the last attempt, since 1970, and the number of attempts on it.
    today: (u64, u32),
}

/// The content of a notice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutageNews {
    /// The parts that have failed for too long.
    pub failed: Vec<Outage>,
    /// The parts that work again, with their outages.
    pub recovered: Vec<Outage>,
}

impl Outages {
    /// An empty record.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { began: now, ..Self::default() }
    }

    /// Compares the record with the present state of all parts. Parts that are missing there were removed, or their
    /// server has not started yet. Changes the record; returns the news, which may be empty. A part has failed for too
    /// long if the time between its first and its last evidence is at least `after`.
    pub fn compare(&mut self, state: &BTreeMap<ToolPart, PartHealth>, after: Duration) -> OutageNews {
        let health = |part: &ToolPart| state.get(part);
        // A removed part that operators know as failing stays: if it comes back, they get no second notice.
        self.failing.retain(|outage| match health(&outage.part) {
            Some(PartHealth::Works) | None => outage.told,
            Some(PartHealth::Unknown | PartHealth::Fails { .. }) => true,
        });
        let mut news = OutageNews::default();
        for (part, health) in state {
            let PartHealth::Fails { since, seen, reason } = health else { continue };
            let Some(at) = self.place(part, *since, state) else { continue };
            let outage = &mut self.failing[at];
            if outage.told {
                continue;
            }
            if outage.since.since(*since) >= CLOCK_ERROR {
                outage.since = *since;
            }
            if seen.since(outage.since) >= after {
                outage.reason = reason.chars().take(REASON_MAX).collect();
                news.failed.push(outage.clone());
            }
        }
        let recovered = |outage: &&Outage| health(&outage.part) == Some(&PartHealth::Works);
        news.recovered.extend(self.failing.iter().filter(recovered).cloned());
        news
    }

    /// Returns the index of a part's outage; adds it if there is room. Parts that do not exist make room.
    fn place(&mut self, part: &ToolPart, since: Timestamp, state: &BTreeMap<ToolPart, PartHealth>) -> Option<usize> {
        if let Some(at) = self.failing.iter().position(|outage| outage.part == *part) {
            return Some(at);
        }
        if self.failing.len() >= PARTS_MAX {
            let absent = self.failing.iter().position(|outage| !state.contains_key(&outage.part))?;
            self.failing.swap_remove(absent);
        }
        self.failing.push(Outage { part: part.clone(), since, reason: String::new(), told: false });
        Some(self.failing.len() - 1)
    }

    /// True if no part fails.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.failing.is_empty()
    }

    /// Returns the name of the next notice, which is the same until [`Self::attempted`] counts it; `None` if the day has
    /// no further notice.
    #[must_use]
    pub fn next_notice(&self, now: Timestamp) -> Option<String> {
        let (day, attempts) = self.today;
        let used = if day == now.0 / DAY { attempts } else { 0 };
        (used < NOTICES_A_DAY).then(|| format!("t{:x}-{:x}", self.began.0 / 1_000, self.attempts))
    }

    /// Records an attempt to post these news. They count as told if `posted` is true.
    pub fn attempted(&mut self, news: &OutageNews, posted: bool, now: Timestamp) {
        let day = now.0 / DAY;
        let used = if self.today.0 == day { self.today.1 } else { 0 };
        (self.attempts, self.today) = (self.attempts.wrapping_add(1), (day, used.saturating_add(1)));
        if posted {
            let is_one_of = |all: &[Outage], part: &ToolPart| all.iter().any(|outage| outage.part == *part);
            self.failing.retain(|outage| !is_one_of(&news.recovered, &outage.part));
            for outage in self.failing.iter_mut().filter(|outage| is_one_of(&news.failed, &outage.part)) {
                outage.told = true;
            }
        }
    }
}

impl OutageNews {
    /// True if there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.recovered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;
    const AFTER: Duration = Duration::from_secs(15 * 60);
    const START: Timestamp = Timestamp(1_000 * DAY);

    fn server(name: &str) -> ToolPart {
        ToolPart::Server(name.to_owned())
    }

    fn minute(number: u64) -> Timestamp {
        Timestamp(START.0 + number * MINUTE)
    }

    /// The state of one server that fails or works at this minute.
    fn state(name: &str, is_down: bool, at: u64) -> BTreeMap<ToolPart, PartHealth> {
        let fails = || PartHealth::Fails { since: minute(at), seen: minute(at), reason: "refused".to_owned() };
        BTreeMap::from([(server(name), if is_down { fails() } else { PartHealth::Works })])
    }

    /// Looks once, and posts the news if there are any. Returns the numbers of failed and of recovered parts.
    fn look(outages: &mut Outages, state: &BTreeMap<ToolPart, PartHealth>, at: u64) -> (usize, usize) {
        let news = outages.compare(state, AFTER);
        if news.is_empty() || outages.next_notice(minute(at)).is_none() {
            return (0, 0);
        }
        outages.attempted(&news, true, minute(at));
        (news.failed.len(), news.recovered.len())
    }

    #[test]
    fn a_lasting_failure_and_its_end_are_told_once_each() {
        let mut outages = Outages::new(START);
        let mut told = Vec::new();
        for at in 0..60 {
            // The record survives a restart at every look.
            outages = serde_json::from_str(&serde_json::to_string(&outages).unwrap()).unwrap();
            let news = look(&mut outages, &state("fm", at < 40, at), at);
            if news != (0, 0) {
                told.push((at, news));
            }
        }
        assert_eq!(told, [(15, (1, 0)), (40, (0, 1))]);
        assert_eq!(outages.failing, []);
    }

    #[test]
    fn a_short_failure_is_never_told() {
        let mut outages = Outages::new(START);
        for at in 0..600 {
            assert_eq!(look(&mut outages, &state("fm", at % 15 != 0, at), at), (0, 0), "minute {at}");
        }
    }

    #[test]
    fn a_part_that_fails_and_recovers_all_day_causes_a_bounded_number_of_notices() {
        let mut outages = Outages::new(START);
        let day = DAY / MINUTE;
        let fails = |at: u64| at % 40 < 20;
        let told = (0..day).filter(|at| look(&mut outages, &state("fm", fails(*at), *at), *at) != (0, 0)).count();
        assert_eq!(told, NOTICES_A_DAY as usize);
        // The next day begins with the present state.
        assert_eq!(look(&mut outages, &state("fm", false, day), day), (0, 0));
        let end = state("fm", true, day + 20);
        outages.compare(&state("fm", true, day + 1), AFTER);
        assert_eq!(look(&mut outages, &end, day + 20), (1, 0));
    }

    #[test]
    fn what_is_unknown_or_absent_after_a_restart_is_neither_told_again_nor_forgotten() {
        let mut outages = Outages::new(START);
        outages.compare(&state("fm", true, 0), AFTER);
        assert_eq!(look(&mut outages, &state("fm", true, 20), 20), (1, 0));
        let unknown = BTreeMap::from([(server("fm"), PartHealth::Unknown)]);
        assert_eq!(look(&mut outages, &BTreeMap::new(), 21), (0, 0));
        assert_eq!(look(&mut outages, &unknown, 22), (0, 0));
        assert_eq!(look(&mut outages, &state("fm", true, 60), 60), (0, 0));
        assert_eq!(look(&mut outages, &state("fm", false, 61), 61), (0, 1));
    }

    #[test]
    fn a_notice_keeps_its_name_until_it_was_tried_and_a_failed_one_tells_the_same_later() {
        let mut outages = Outages::new(START);
        outages.compare(&state("fm", true, 0), AFTER);
        let news = outages.compare(&state("fm", true, 15), AFTER);
        let name = outages.next_notice(minute(15)).unwrap();
        assert!(name.len() <= 22, "{name}");
        assert_eq!(outages.next_notice(minute(16)), Some(name.clone()));
        outages.attempted(&news, false, minute(16));
        assert_ne!(outages.next_notice(minute(17)), Some(name));
        assert_eq!(outages.compare(&state("fm", true, 17), AFTER), news);
    }

    #[test]
    fn the_record_is_bounded_and_parts_that_no_longer_exist_make_room() {
        let mut outages = Outages::new(START);
        let many = |from: usize| {
            let part = |number: usize| {
                let fails = PartHealth::Fails { since: minute(0), seen: minute(60), reason: "x".repeat(10_000) };
                (server(&format!("s{number}")), fails)
            };
            (from..from + 2 * PARTS_MAX).map(part).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(look(&mut outages, &many(0), 60), (PARTS_MAX, 0));
        assert!(serde_json::to_string(&outages).unwrap().len() < 64 * 1024);
        assert_eq!(look(&mut outages, &many(1_000), 61), (PARTS_MAX, 0));
        assert_eq!(outages.failing.len(), PARTS_MAX);
    }
}
