//! Keys that the tables do not have. Most turns look for records that few members have, and each look into the tables costs a
//! thread. This process has the file for itself, so what is absent stays so until it is written here.

use std::collections::HashSet;

use super::memtable::Memtable;

/// So many keys are known; then all are given up.
const KEYS_MAX: usize = 8_192;

/// Plain data, no waiting. Only what memory does not hold is looked for here.
#[derive(Debug, Default)]
pub(super) struct Absent {
    keys: HashSet<String>,
    /// How often rows were moved into the tables.
    moves: u64,
}

/// How far the tables were when a key was looked for in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves(u64);

impl Absent {
    /// None when the tables do not have the key. Whoever looks for it there and finds nothing says so with what this gives.
    pub fn look(&self, key: &str) -> Option<Moves> {
        (!self.keys.contains(key)).then_some(Moves(self.moves))
    }

    /// The tables did not have a key. Nothing is learned when rows were moved into them since then.
    pub fn learn(&mut self, key: String, since: Moves) {
        if since != Moves(self.moves) {
            return;
        }
        if self.keys.len() == KEYS_MAX {
            self.keys.clear();
        }
        self.keys.insert(key);
    }

    /// The file is given back: others may write to it.
    pub fn forget(&mut self) {
        self.moves += 1;
        self.keys.clear();
    }

    /// The tables have these rows now, and memory is about to forget them.
    pub fn moved(&mut self, rows: &Memtable) {
        self.moves += 1;
        for (key, _) in rows.with_prefix("") {
            self.keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::memtable::Row;
    use crate::store::embedded::wal::Record;

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
        absent.learn("a".to_owned(), since);
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
        absent.learn("a".to_owned(), since);
        assert!(absent.look("a").is_some());
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let mut absent = Absent::default();
        let since = absent.look("").unwrap();
        for number in 0..=KEYS_MAX {
            absent.learn(number.to_string(), since);
        }
        assert_eq!(absent.keys.len(), 1);
    }
}
