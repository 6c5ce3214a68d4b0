//! The index of all sessions in one bounded record, so that no scan of a store's keys is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// Returns the numbers of the lines that a session's record lists. `None` if the record has lines but lists none, as
/// records of earlier versions do, or if it is invalid.
#[must_use]
pub fn line_numbers(record: &str) -> Option<Vec<u64>> {
    #[derive(Deserialize)]
    struct Lines {
        #[serde(default)]
        lines: usize,
        #[serde(default)]
        numbers: Vec<u64>,
    }
    let Lines { lines, numbers } = serde_json::from_str(record).ok()?;
    (lines == 0 || !numbers.is_empty()).then_some(numbers)
}

/// The sessions of a store. An expired session stays in the index until a reader checks it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionIndex {
    /// The highest number assigned to a session.
    #[serde(default)]
    last: u64,
    /// The sessions by the ids of their places.
    #[serde(default)]
    sessions: BTreeMap<String, Indexed>,
}

/// A session in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Indexed {
    /// The name that its owner uses.
    pub name: String,
    /// The short form of its name.
    pub number: u64,
    /// The last time at which it was known to exist, in milliseconds since the Unix epoch. From then on it exists for
    /// its lifetime, unless it was ended.
    pub at: u64,
}

impl SessionIndex {
    /// Parses a stored index; `None` if it is invalid.
    #[must_use]
    pub fn parse(stored: &str) -> Option<Self> {
        serde_json::from_str(stored).ok()
    }

    /// Returns the index as stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data with string keys always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the sessions with the ids of their places, in the order of the ids.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Indexed)> {
        self.sessions.iter().map(|(place, session)| (place.as_str(), session))
    }

    /// Returns the session at a place.
    #[must_use]
    pub fn get(&self, place: &str) -> Option<&Indexed> {
        self.sessions.get(place)
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// True if there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the highest number assigned.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Adds or replaces the session at this place.
    pub fn insert(&mut self, place: &str, session: Indexed) {
        self.last = self.last.max(session.number);
        self.sessions.insert(place.to_owned(), session);
    }

    /// Renames a session. Returns false if there is none at this place, or if it has this name already.
    pub fn rename(&mut self, place: &str, name: &str) -> bool {
        let Some(session) = self.sessions.get_mut(place).filter(|session| session.name != name) else { return false };
        name.clone_into(&mut session.name);
        true
    }

    /// Removes the sessions at these places. Returns false if there were none.
    pub fn remove<'a>(&mut self, places: impl IntoIterator<Item = &'a str>) -> bool {
        let before = self.len();
        for place in places {
            self.sessions.remove(place);
        }
        self.len() < before
    }

    /// Adds the sessions that are absent and leaves the others unchanged. Returns false if there was nothing to add.
    pub fn add<'a>(&mut self, sessions: impl IntoIterator<Item = (&'a str, &'a Indexed)>) -> bool {
        let before = self.len();
        for (place, session) in sessions {
            if !self.sessions.contains_key(place) {
                self.insert(place, session.clone());
            }
        }
        self.len() > before
    }

    /// Returns the places of sessions that may have expired, given their lifetime after the last activity.
    #[must_use]
    pub fn doubtful(&self, now: Timestamp, life: Duration) -> BTreeSet<String> {
        let is_old = |session: &Indexed| now.since(Timestamp(session.at)) >= life;
        self.sessions.iter().filter(|(_, session)| is_old(session)).map(|(place, _)| place.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u64, at: u64) -> Indexed {
        Indexed { name: format!("s{number}"), number, at }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_numbers_rise() {
        let mut index = SessionIndex::default();
        index.insert("a", session(101, 1_000));
        index.insert("b", session(102, 1_000));
        assert!(index.rename("a", "cats") && !index.rename("a", "cats") && !index.rename("c", "cats"));
        assert!(index.remove(["b"]) && !index.remove(["b"]));
        assert_eq!(index.last(), 102, "no number is given twice");
        assert_eq!(SessionIndex::parse(&index.to_json()), Some(index.clone()));
        assert_eq!(index.get("a").map(|session| session.name.as_str()), Some("cats"));
        assert!(!index.add([("a", &session(7, 0))]) && index.add([("c", &session(103, 0))]));
        assert_eq!((index.len(), index.last()), (2, 103));
        assert_eq!(SessionIndex::parse("{"), None);
    }

    #[test]
    fn a_record_names_its_lines_unless_an_earlier_version_wrote_it() {
        assert_eq!(line_numbers(r#"{"name":"a","number":101,"lines":2,"numbers":[7,9]}"#), Some(vec![7, 9]));
        assert_eq!(line_numbers(r#"{"name":"a","number":101,"lines":0}"#), Some(Vec::new()));
        assert_eq!(line_numbers(r#"{"name":"a","number":101,"lines":2}"#), None);
        assert_eq!(line_numbers("{"), None);
    }

    #[test]
    fn what_was_quiet_for_its_life_may_be_over() {
        let mut index = SessionIndex::default();
        index.insert("old", session(101, 1_000));
        index.insert("young", session(102, 2_000));
        let doubtful = index.doubtful(Timestamp(2_500), Duration::from_millis(1_500));
        assert_eq!(doubtful.into_iter().collect::<Vec<_>>(), ["old"]);
    }
}
