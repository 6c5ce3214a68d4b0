//! Keys that the tables do not have. Most turns look for records that few members have, and each look into the tables costs a
//! thread. This process has the file for itself, so what is absent stays so until it is written here.
//!
//! Absent is a key by itself, or with its whole family: all keys that begin as it does, such as the wishes to be forgotten, of which
//! there are none most of the time.

use std::collections::HashSet;

use super::memtable::Memtable;

/// So many keys are known; then all are given up.
const KEYS_MAX: usize = 8_192;

/// So many families are known; then all are given up.
const FAMILIES_MAX: usize = 64;

/// How a key begins that names us first and then what it is about; a key that does not has what it is about in front.
const OURS: &str = "staffai:";

/// Plain data, no waiting. Only what memory does not hold is looked for here.
#[derive(Debug, Default)]
pub(super) struct Absent {
    keys: HashSet<String>,
    families: HashSet<String>,
    /// How often rows were moved into the tables.
    moves: u64,
}

/// How far the tables were when a key was looked for in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves(u64);

/// What the tables do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// This key.
    Key,
    /// Any key of its family.
    Family,
}

/// How all keys begin that are about the same as this one.
pub(super) fn family(key: &str) -> &str {
    let about = if key.starts_with(OURS) { OURS.len() } else { 0 };
    memchr::memchr(b':', &key.as_bytes()[about..]).map_or(key, |end| &key[..=about + end])
}

impl Absent {
    /// None when the tables do not have the key. Whoever looks for it there and finds nothing says so with what this gives.
    pub fn look(&self, key: &str) -> Option<Moves> {
        let absent = self.families.contains(family(key)) || self.keys.contains(key);
        (!absent).then_some(Moves(self.moves))
    }

    /// The tables did not have a key. Nothing is learned when rows were moved into them since then.
    pub fn learn(&mut self, key: String, missing: Missing, since: Moves) {
        if since != Moves(self.moves) {
            return;
        }
        let (known, most, name) = match missing {
            Missing::Key => (&mut self.keys, KEYS_MAX, key),
            Missing::Family => (&mut self.families, FAMILIES_MAX, family(&key).to_owned()),
        };
        if known.len() == most {
            known.clear();
        }
        known.insert(name);
    }

    /// The file is given back: others may write to it.
    pub fn forget(&mut self) {
        self.moves += 1;
        self.keys.clear();
        self.families.clear();
    }

    /// The tables have these rows now, and memory is about to forget them.
    pub fn moved(&mut self, rows: &Memtable) {
        self.moves += 1;
        let mut last = "";
        for (key, _) in rows.with_prefix("").filter(|(_, row)| row.text.is_some()) {
            self.keys.remove(key);
            if family(key) != last {
                last = family(key);
                self.families.remove(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::memtable::Row;
    use crate::embedded::wal::Record;

    fn rows(key: &str) -> Memtable {
        let mut rows = Memtable::default();
        let row = Row { end: 0, text: Some("x".to_owned()) };
        rows.take(Record { sequence: 1, ticket: None, rows: vec![(key.to_owned(), row)] });
        rows
    }

    #[test]
    fn what_is_written_is_absent_no_longer() {
        let mut absent = Absent::default();
        let since = absent.look("a").unwrap();
        absent.learn("a".to_owned(), Missing::Key, since);
        assert_eq!(absent.look("a"), None);
        absent.moved(&rows("b"));
        assert_eq!(absent.look("a"), None);
        absent.moved(&rows("a"));
        assert!(absent.look("a").is_some());
    }

    #[test]
    fn a_look_from_before_a_move_teaches_nothing() {
        let mut absent = Absent::default();
        let since = absent.look("a").unwrap();
        absent.moved(&rows("a"));
        absent.learn("a".to_owned(), Missing::Key, since);
        assert!(absent.look("a").is_some());
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let mut absent = Absent::default();
        let since = absent.look("").unwrap();
        for number in 0..=KEYS_MAX {
            absent.learn(number.to_string(), Missing::Key, since);
        }
        assert_eq!(absent.keys.len(), 1);
    }

    #[test]
    fn a_family_is_absent_until_one_of_it_is_written() {
        let mut absent = Absent::default();
        let since = absent.look("staffai:wish:1").unwrap();
        absent.learn("staffai:wish:1".to_owned(), Missing::Family, since);
        assert_eq!(absent.look("staffai:wish:2"), None);
        assert!(absent.look("staffai:other:2").is_some());
        absent.moved(&rows("staffai:other:1"));
        assert_eq!(absent.look("staffai:wish:2"), None);
        absent.moved(&rows("staffai:wish:3"));
        assert!(absent.look("staffai:wish:2").is_some());
    }

    #[test]
    fn a_family_is_what_keys_are_about() {
        let keys = ["staffai:forgotten:discord:1", "discord_context:1:2", "staffai:model_rows", "odd", ""];
        let families = ["staffai:forgotten:", "discord_context:", "staffai:model_rows", "odd", ""];
        assert_eq!(keys.map(family), families);
    }
}
