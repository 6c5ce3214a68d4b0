//! A negative cache of the tables. Most turns look up records that few members have, and each lookup costs a thread.
//! Because this process has exclusive access to the file, an absent key stays absent until it is written here.
//!
//! An entry is a single key or its whole family, i.e. all keys with the same prefix. Many families, such as deletion
//! requests, are usually empty.

use std::collections::HashSet;

use super::memtable::Memtable;

/// The most cached keys; at this number all are evicted.
const KEYS_MAX: usize = 8_192;

/// The most cached families; at this number all are evicted.
const FAMILIES_MAX: usize = 64;

/// The prefix of keys whose second segment is the subject; in other keys the first one is.
const OURS: &str = "staffai:";

/// Plain data without waiting. Consulted only for keys that are not in memory.
#[derive(Debug, Default)]
pub(super) struct Absent {
    keys: HashSet<String>,
    families: HashSet<String>,
    /// The number of checkpoints.
    moves: u64,
}

/// The number of checkpoints at the time of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves(u64);

/// The absence found by a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Key,
    Family,
}

pub(super) fn family(key: &str) -> &str {
    let about = if key.starts_with(OURS) { OURS.len() } else { 0 };
    memchr::memchr(b':', &key.as_bytes()[about..]).map_or(key, |end| &key[..=about + end])
}

impl Absent {
    /// Returns `None` if the key is known to be absent. On a miss, the caller records the absence with the returned
    /// token.
    pub fn look(&self, key: &str) -> Option<Moves> {
        let absent = self.families.contains(family(key)) || self.keys.contains(key);
        (!absent).then_some(Moves(self.moves))
    }

    /// Records the absence of a key, unless a checkpoint happened since the token was issued.
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

    /// Evicts all entries when the file is closed: other processes may then write to it.
    pub fn forget(&mut self) {
        self.moves += 1;
        self.keys.clear();
        self.families.clear();
    }

    /// Evicts rows that a checkpoint moves from memory into the tables.
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
