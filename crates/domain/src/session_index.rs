//! Which sessions there are, in one bounded record: nobody has to look through all keys of a store for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// The numbers of the lines that the record of a session names; none where it names no lines that it has, as those of versions
/// before do.
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

/// All sessions of a store. A session that ended by itself is in it until somebody looks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionIndex {
    /// The highest number that a session was given.
    #[serde(default)]
    last: u64,
    /// The sessions by the ids of their places.
    #[serde(default)]
    sessions: BTreeMap<String, Indexed>,
}

/// A session in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Indexed {
    /// By which its owner calls it.
    pub name: String,
    /// Short for its name.
    pub number: u64,
    /// A moment at which it was there, in milliseconds since the Unix epoch: until its life from then on is over, it is there still
    /// unless it was ended.
    pub at: u64,
}

impl SessionIndex {
    /// The index that a store holds; none where it cannot be read.
    #[must_use]
    pub fn parse(stored: &str) -> Option<Self> {
        serde_json::from_str(stored).ok()
    }

    /// As it is stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data with string keys always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The sessions with the ids of their places, in the order of these.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Indexed)> {
        self.sessions.iter().map(|(place, session)| (place.as_str(), session))
    }

    /// The session at a place.
    #[must_use]
    pub fn get(&self, place: &str) -> Option<&Indexed> {
        self.sessions.get(place)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The highest number that was given.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// There is a session at this place, as it was seen last.
    pub fn insert(&mut self, place: &str, session: Indexed) {
        self.last = self.last.max(session.number);
        self.sessions.insert(place.to_owned(), session);
    }

    /// A session has another name; false when there is none at this place, or another name already.
    pub fn rename(&mut self, place: &str, name: &str) -> bool {
        let Some(session) = self.sessions.get_mut(place).filter(|session| session.name != name) else { return false };
        name.clone_into(&mut session.name);
        true
    }

    /// There is no session at these places; false when there was none before.
    pub fn remove<'a>(&mut self, places: impl IntoIterator<Item = &'a str>) -> bool {
        let before = self.len();
        for place in places {
            self.sessions.remove(place);
        }
        self.len() < before
    }

    /// Adds what is not in it; false when there was nothing to add. Whoever is in it stays as it is.
    pub fn add<'a>(&mut self, sessions: impl IntoIterator<Item = (&'a str, &'a Indexed)>) -> bool {
        let before = self.len();
        for (place, session) in sessions {
            if !self.sessions.contains_key(place) {
                self.insert(place, session.clone());
            }
        }
        self.len() > before
    }

    /// The places of sessions of which it is not known whether they are over, where each lives so long after something happened.
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
