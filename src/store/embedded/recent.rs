//! Values of keys that somebody asked for lately, so that a conversation that goes on needs no thread for each of its reads.
//!
//! Only commits fill it, in their order. What a read finds is not kept, because a commit may have overtaken it.

use std::collections::HashMap;
use std::mem;

use crate::domain::ids::Timestamp;

/// How much each of the two generations holds at most, in bytes. The older one goes when the younger one is full.
const GENERATION_BYTES: usize = 2 * 1024 * 1024;

/// What a key weighs beside its text, in bytes.
const OVERHEAD: usize = 96;

/// Two generations of asked-for keys.
#[derive(Default)]
pub struct Recent {
    young: HashMap<String, Known>,
    old: HashMap<String, Known>,
    young_bytes: usize,
}

/// What can be said of a key at once.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// Its value, or that it has none.
    Value(Option<String>),
    /// Nothing: the file has to be asked.
    Unknown,
}

/// What is known of a key.
enum Known {
    /// Somebody asked for it; the next commit tells.
    Nothing,
    /// There is no such key.
    Absent,
    /// Its text, and the moment its life ends (0: never).
    Value(u64, Box<str>),
}

impl Recent {
    /// What is known of a key. It is remembered as asked for.
    pub fn ask(&mut self, key: &str, now: Timestamp) -> Said {
        if !self.young.contains_key(key) {
            let known = self.old.remove(key).unwrap_or(Known::Nothing);
            self.put(key, known);
        }
        match self.young.get(key) {
            None | Some(Known::Nothing) => Said::Unknown,
            Some(Known::Absent) => Said::Value(None),
            Some(Known::Value(end, text)) => Said::Value(super::alive(*end, now).then(|| text.to_string())),
        }
    }

    /// A commit has put this into the file. Kept only for keys that somebody asked for.
    pub fn committed(&mut self, key: &str, value: Option<(u64, &str)>) {
        let asked = self.old.remove(key).is_some() || self.young.contains_key(key);
        if asked {
            let known = value.map_or(Known::Absent, |(end, text)| Known::Value(end, text.into()));
            self.put(key, known);
        }
    }

    /// A commit has changed this in a way that was not told. The next read asks the file.
    pub fn changed(&mut self, key: &str) {
        let asked = self.old.remove(key).is_some() || self.young.contains_key(key);
        if asked {
            self.put(key, Known::Nothing);
        }
    }

    /// Nothing is known any more: a commit failed, and it may hold or not.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn put(&mut self, key: &str, known: Known) {
        self.young_bytes += weight(key, &known);
        if let Some(before) = self.young.insert(key.to_owned(), known) {
            self.young_bytes -= weight(key, &before);
        }
        if self.young_bytes > GENERATION_BYTES {
            self.old = mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

fn weight(key: &str, known: &Known) -> usize {
    let text = if let Known::Value(_, text) = known { text.len() } else { 0 };
    OVERHEAD + key.len() + text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    #[test]
    fn only_keys_that_were_asked_for_are_kept() {
        let mut recent = Recent::default();
        recent.committed("a", Some((0, "1")));
        assert_eq!(recent.ask("a", NOW), Said::Unknown);
        recent.committed("a", Some((0, "2")));
        assert_eq!(recent.ask("a", NOW), Said::Value(Some("2".to_owned())));
        recent.committed("a", None);
        assert_eq!(recent.ask("a", NOW), Said::Value(None));
    }

    #[test]
    fn a_value_ends_with_its_life() {
        let mut recent = Recent::default();
        recent.ask("a", NOW);
        recent.committed("a", Some((1_001, "1")));
        assert_eq!(recent.ask("a", NOW), Said::Value(Some("1".to_owned())));
        assert_eq!(recent.ask("a", Timestamp(1_001)), Said::Value(None));
    }

    #[test]
    fn after_a_failed_commit_nothing_is_known() {
        let mut recent = Recent::default();
        recent.ask("a", NOW);
        recent.committed("a", Some((0, "1")));
        recent.clear();
        assert_eq!(recent.ask("a", NOW), Said::Unknown);
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes_at_the_bound() {
        let mut recent = Recent::default();
        let long = "x".repeat(10_000);
        for number in 0..2_000 {
            let key = format!("key{number}");
            recent.ask(&key, NOW);
            recent.committed(&key, Some((0, &long)));
            recent.ask("kept", NOW);
            recent.committed("kept", Some((0, "here")));
            let kept: usize = recent.young.iter().chain(&recent.old).map(|(key, known)| weight(key, known)).sum();
            assert!(kept <= 2 * (GENERATION_BYTES + long.len() + 200), "{kept}");
        }
        assert_eq!(recent.ask("kept", NOW), Said::Value(Some("here".to_owned())));
        assert_eq!(recent.ask("key0", NOW), Said::Unknown);
    }
}
