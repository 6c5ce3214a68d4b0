//! Increments that are not durable yet: one sum for each key, and the batch handed to the backend.
//!
//! An increment must be counted exactly once, but a batch whose answer was lost may or may not have been counted. A
//! batch is therefore resent unchanged, with the same number, until the backend has applied it; later increments wait
//! for the next one. Plain data without waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::overlay::after;
use domain::counter::Counter;
use domain::ids::Timestamp;
use ports::Write;

/// The size of an entry besides its key, in bytes.
const ENTRY_OVERHEAD: usize = 128;

pub struct Counts {
    waiting: BTreeMap<Arc<str>, Sum>,
    handed: BTreeMap<Arc<str>, Sum>,
    /// The number of the last batch handed over.
    number: u64,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    by: Counter,
    expires: Option<Timestamp>,
}

impl Counts {
    pub const fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self { waiting: BTreeMap::new(), handed: BTreeMap::new(), number: 0, bytes: 0, max_entries, max_bytes }
    }

    /// Adds an increment; returns false if a bound is reached.
    pub fn add(&mut self, key: &str, by: Counter, ttl: Option<Duration>, now: Timestamp) -> bool {
        let expires = ttl.map(|ttl| after(now, ttl));
        if let Some(sum) = self.waiting.get_mut(key) {
            sum.by = sum.by.plus(by);
            sum.expires = expires.or(sum.expires);
            return true;
        }
        if self.len() >= self.max_entries || self.bytes + weight(key) > self.max_bytes {
            return false;
        }
        self.bytes += weight(key);
        self.waiting.insert(key.into(), Sum { by, expires });
        true
    }

    /// Discards pending increments of a key, because a later write replaces it. A batch already handed over precedes
    /// that write.
    pub fn replace(&mut self, key: &str) {
        if self.waiting.remove(key).is_some() {
            self.bytes -= weight(key);
        }
    }

    /// Returns the batch to send and its number: the last one while its outcome is unknown, else all pending
    /// increments.
    pub fn hand_over(&mut self, now: Timestamp) -> (Vec<Write>, u64) {
        if self.handed.is_empty() && !self.waiting.is_empty() {
            self.handed = std::mem::take(&mut self.waiting);
            self.number += 1;
        }
        let write = |(key, sum): (&Arc<str>, &Sum)| Write::Add {
            key: key.to_string(),
            by: sum.by,
            // An expired increment is still counted: the key itself may be live.
            ttl: sum.expires.map(|end| end.since(now).max(Duration::from_millis(1))),
        };
        (self.handed.iter().map(write).collect(), self.number)
    }

    /// Records that the backend has applied the batch of this number.
    pub fn taken(&mut self, number: u64) {
        if number == self.number {
            self.bytes -= self.handed.keys().map(|key| weight(key)).sum::<usize>();
            self.handed.clear();
        }
    }

    /// Returns the increments that the backend may not have counted yet, if any.
    pub fn of(&self, key: &str) -> Option<Counter> {
        let sums = [self.waiting.get(key), self.handed.get(key)];
        sums.into_iter().flatten().map(|sum| sum.by).reduce(Counter::plus)
    }

    /// Returns them for all keys with this prefix.
    pub fn with_prefix(&self, prefix: &str) -> Vec<(String, Counter)> {
        let mut found: BTreeMap<&str, Counter> = BTreeMap::new();
        for sums in [&self.waiting, &self.handed] {
            let from = (std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded);
            for (key, sum) in sums.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix)) {
                let total = found.entry(key).or_default();
                *total = total.plus(sum.by);
            }
        }
        found.into_iter().map(|(key, by)| (key.to_owned(), by)).collect()
    }

    pub fn len(&self) -> usize {
        self.waiting.len() + self.handed.len()
    }
}

const fn weight(key: &str) -> usize {
    ENTRY_OVERHEAD + key.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn add(key: &str, by: i64) -> Write {
        Write::Add { key: key.into(), by: by.into(), ttl: None }
    }

    #[test]
    fn a_batch_stays_as_it_is_until_it_is_taken() {
        let mut counts = Counts::new(10, 10_000);
        assert!(counts.add("a", 2.into(), None, NOW) && counts.add("a", 3.into(), None, NOW));
        assert_eq!(counts.hand_over(NOW), (vec![add("a", 5)], 1));
        assert!(counts.add("a", 1.into(), None, NOW) && counts.add("b", 1.into(), None, NOW));
        assert_eq!(counts.hand_over(NOW), (vec![add("a", 5)], 1));
        assert_eq!(counts.of("a"), Some(6.into()));
        counts.taken(1);
        assert_eq!(counts.of("a"), Some(1.into()));
        assert_eq!(counts.hand_over(NOW), (vec![add("a", 1), add("b", 1)], 2));
        counts.taken(2);
        assert_eq!((counts.of("a"), counts.len(), counts.bytes), (None, 0, 0));
        assert_eq!(counts.hand_over(NOW), (Vec::new(), 2));
    }

    #[test]
    fn what_is_replaced_no_longer_waits_but_what_was_handed_over_does() {
        let mut counts = Counts::new(10, 10_000);
        counts.add("a", 2.into(), None, NOW);
        counts.hand_over(NOW);
        counts.add("a", 3.into(), None, NOW);
        counts.replace("a");
        assert_eq!(counts.of("a"), Some(2.into()));
    }

    #[test]
    fn the_longest_told_life_is_passed_on() {
        let mut counts = Counts::new(10, 10_000);
        counts.add("a", 1.into(), Some(Duration::from_millis(500)), NOW);
        counts.add("a", 1.into(), None, NOW);
        let (writes, _) = counts.hand_over(Timestamp(1_100));
        assert_eq!(writes, [Write::Add { key: "a".into(), by: 2.into(), ttl: Some(Duration::from_millis(400)) }]);
    }

    #[test]
    fn the_number_and_the_bytes_are_bounded() {
        let mut counts = Counts::new(2, 10_000);
        assert!(counts.add("a", 1.into(), None, NOW) && counts.add("b", 1.into(), None, NOW));
        assert!(!counts.add("c", 1.into(), None, NOW) && counts.add("a", 1.into(), None, NOW));
        let mut counts = Counts::new(10, 2 * weight("a"));
        assert!(
            counts.add("a", 1.into(), None, NOW)
                && counts.add("b", 1.into(), None, NOW)
                && !counts.add("c", 1.into(), None, NOW)
        );
    }

    #[test]
    fn a_prefix_finds_both_kinds() {
        let mut counts = Counts::new(10, 10_000);
        counts.add("p:1", 1.into(), None, NOW);
        counts.hand_over(NOW);
        for key in ["p:1", "p:2", "q"] {
            counts.add(key, 1.into(), None, NOW);
        }
        assert_eq!(counts.with_prefix("p:"), [("p:1".to_owned(), 2.into()), ("p:2".to_owned(), 1.into())]);
    }
}
