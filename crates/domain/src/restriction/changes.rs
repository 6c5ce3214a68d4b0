//! The latest changes of restrictions, which the processes of a divided bot exchange in one record of their store. The
//! records of the restrictions themselves are the truth: a process that missed a change reads them.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Member;
use crate::ids::{Person, Timestamp};

/// The most changes in the record; the oldest is dropped first.
const CHANGES_MAX: usize = 100;

/// The time after the last change for which the record names members: much longer than any pause between two reads.
pub const KEPT: Duration = Duration::from_secs(3_600);

/// The latest changes, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestChanges {
    /// The number of the last change. Changes are numbered from one.
    #[serde(default)]
    last: u64,
    /// The time of the last change.
    #[serde(default)]
    at: Timestamp,
    #[serde(default)]
    changes: VecDeque<Change>,
}

/// A restriction that began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    guild: String,
    person: Person,
    /// The start of the restriction; `None` if it ended.
    since: Option<Timestamp>,
}

impl Change {
    /// Creates the change of a member.
    #[must_use]
    pub fn new(member: &Member, since: Option<Timestamp>) -> Self {
        Self { guild: member.guild.clone(), person: member.person.clone(), since }
    }

    /// Returns the member, and the start of the restriction; `None` if it ended.
    #[must_use]
    pub fn into_parts(self) -> (Member, Option<Timestamp>) {
        (Member { guild: self.guild, person: self.person }, self.since)
    }
}

impl LatestChanges {
    /// Parses the record. A damaged or missing one has no changes.
    #[must_use]
    pub fn parse(stored: Option<&str>) -> Self {
        stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the record as text.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data with string keys always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Appends changes that were made now.
    pub fn extend(&mut self, changes: &[Change], now: Timestamp) {
        self.at = now;
        for change in changes {
            self.last = self.last.saturating_add(1);
            self.changes.push_back(change.clone());
        }
        while self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    /// Drops the changes if the last one is older than [`KEPT`]. Returns true if there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let expired = !self.changes.is_empty() && now.since(self.at) > KEPT;
        if expired {
            self.changes.clear();
        }
        expired
    }

    /// Returns the number of the last change.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the changes after the one with this number, oldest first; `None` if some of them are lost.
    #[must_use]
    pub fn after(&self, number: u64) -> Option<impl Iterator<Item = &Change>> {
        let new = usize::try_from(self.last.checked_sub(number)?).ok()?;
        let known = self.changes.len().checked_sub(new)?;
        Some(self.changes.iter().skip(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u64) -> Change {
        let person = format!("discord:{number}").parse().unwrap();
        Change::new(&Member { guild: "5".to_owned(), person }, number.is_multiple_of(2).then_some(Timestamp(number)))
    }

    #[test]
    fn a_reader_gets_the_changes_since_its_last_read_or_learns_that_some_are_lost() {
        let mut latest = LatestChanges::parse(None);
        for number in 1..=250 {
            latest.extend(&[change(number)], Timestamp(number));
            latest = LatestChanges::parse(Some(&latest.to_json()));
        }
        assert_eq!(latest.last(), 250);
        let after = |number| latest.after(number).map(|changes| changes.cloned().collect::<Vec<_>>());
        assert_eq!((after(250), after(248)), (Some(Vec::new()), Some(vec![change(249), change(250)])));
        assert_eq!(after(150).map(|changes| changes.len()), Some(CHANGES_MAX));
        assert_eq!((after(149), after(251)), (None, None));
        assert!(!latest.expire(Timestamp(250 + 3_600_000)) && latest.expire(Timestamp(251 + 3_600_000)));
        assert!(!latest.expire(Timestamp(u64::MAX)), "nothing is left");
        let after = |number| latest.after(number).map(Iterator::count);
        assert_eq!((after(250), after(249)), (Some(0), None));
        for damaged in ["", "{", "[]", r#"{"last":"x"}"#] {
            assert_eq!(LatestChanges::parse(Some(damaged)), LatestChanges::default(), "{damaged}");
        }
    }
}
