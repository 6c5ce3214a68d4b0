//! Increments that are not durable yet: one sum for each key, and the batch handed to the backend.
//!
//! An increment must be counted exactly once, but a batch whose answer was lost may or may not have been counted. A
//! batch is therefore resent unchanged, with the same number, until the backend has applied it; later increments wait
//! for the next one. Plain data without waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::overlay::after;
use super::terms::Grouped;
use domain::counter::Counter;
use domain::ids::Timestamp;
use domain::ownership::Range;
use ports::Write;

/// The size of an entry besides its key, in bytes.
const ENTRY_OVERHEAD: usize = 128;

/// A key and the range whose owner counts.
type Counted = (Arc<str>, Option<Range>);

pub struct Counts {
    waiting: BTreeMap<Counted, Sum>,
    handed: BTreeMap<Counted, Sum>,
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
    pub fn add(
        &mut self,
        key: &str,
        owner: Option<&Range>,
        (by, ttl): (Counter, Option<Duration>),
        now: Timestamp,
    ) -> bool {
        let expires = ttl.map(|ttl| after(now, ttl));
        let counted = (key.into(), owner.cloned());
        if let Some(sum) = self.waiting.get_mut(&counted) {
            sum.by = sum.by.plus(by);
            sum.expires = expires.or(sum.expires);
            return true;
        }
        if self.len() >= self.max_entries || self.bytes + weight(key) > self.max_bytes {
            return false;
        }
        self.bytes += weight(key);
        self.waiting.insert(counted, Sum { by, expires });
        true
    }

    /// Discards pending increments of a key, because a later write replaces it. A batch already handed over precedes
    /// that write.
    pub fn replace(&mut self, key: &str) {
        if !self.waiting.is_empty() {
            let counted: Vec<Counted> = under(&self.waiting, key).map(|(counted, _)| counted.clone()).collect();
            self.forget(&counted);
        }
    }

    /// Discards pending increments of the owner of this range, because another process owns it now.
    pub fn drop_owned(&mut self, range: &Range) {
        let theirs = self.waiting.keys().filter(|(_, owner)| owner.as_ref() == Some(range));
        let counted: Vec<Counted> = theirs.cloned().collect();
        self.forget(&counted);
    }

    fn forget(&mut self, counted: &[Counted]) {
        for counted in counted {
            if self.waiting.remove(counted).is_some() {
                self.bytes -= weight(&counted.0);
            }
        }
    }

    /// Returns the batch to send and its number: the last one while its outcome is unknown, else all pending
    /// increments.
    pub fn hand_over(&mut self, now: Timestamp) -> (Grouped, u64) {
        if self.handed.is_empty() && !self.waiting.is_empty() {
            self.handed = std::mem::take(&mut self.waiting);
            self.number += 1;
        }
        let mut writes = Grouped::default();
        for ((key, owner), sum) in &self.handed {
            // An expired increment is still counted: the key itself may be live.
            let ttl = sum.expires.map(|end| end.since(now).max(Duration::from_millis(1)));
            writes.push(owner.as_ref(), Write::Add { key: key.to_string(), by: sum.by, ttl });
        }
        (writes, self.number)
    }

    /// Records that the backend has applied the batch of this number.
    pub fn taken(&mut self, number: u64) {
        if number == self.number {
            self.bytes -= self.handed.keys().map(|(key, _)| weight(key)).sum::<usize>();
            self.handed.clear();
        }
    }

    /// Returns the increments that the backend may not have counted yet, if any.
    pub fn of(&self, key: &str) -> Option<Counter> {
        if self.len() == 0 {
            return None;
        }
        let sums = under(&self.waiting, key).chain(under(&self.handed, key));
        sums.map(|(_, sum)| sum.by).reduce(Counter::plus)
    }

    /// Returns them for all keys with this prefix.
    pub fn with_prefix(&self, prefix: &str) -> Vec<(String, Counter)> {
        let mut found: BTreeMap<&str, Counter> = BTreeMap::new();
        for sums in [&self.waiting, &self.handed] {
            let from = sums.range((Arc::from(prefix), None)..);
            for ((key, _), sum) in from.take_while(|((key, _), _)| key.starts_with(prefix)) {
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

/// Returns the increments of one key, of all owners.
fn under<'a>(sums: &'a BTreeMap<Counted, Sum>, key: &str) -> impl Iterator<Item = (&'a Counted, &'a Sum)> {
    let key: Arc<str> = key.into();
    sums.range((Arc::clone(&key), None)..).take_while(move |((found, _), _)| *found == key)
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

    /// Returns the part handed over without an owner.
    fn handed(counts: &mut Counts, now: Timestamp) -> (Vec<Write>, u64) {
        let (writes, number) = counts.hand_over(now);
        assert_eq!(writes.owned.len(), 0);
        (writes.plain, number)
    }

    #[test]
    fn a_batch_stays_as_it_is_until_it_is_taken() {
        let mut counts = Counts::new(10, 10_000);
        assert!(counts.add("a", None, (2.into(), None), NOW) && counts.add("a", None, (3.into(), None), NOW));
        assert_eq!(handed(&mut counts, NOW), (vec![add("a", 5)], 1));
        assert!(counts.add("a", None, (1.into(), None), NOW) && counts.add("b", None, (1.into(), None), NOW));
        assert_eq!(handed(&mut counts, NOW), (vec![add("a", 5)], 1));
        assert_eq!(counts.of("a"), Some(6.into()));
        counts.taken(1);
        assert_eq!(counts.of("a"), Some(1.into()));
        assert_eq!(handed(&mut counts, NOW), (vec![add("a", 1), add("b", 1)], 2));
        counts.taken(2);
        assert_eq!((counts.of("a"), counts.len(), counts.bytes), (None, 0, 0));
        assert_eq!(handed(&mut counts, NOW), (Vec::new(), 2));
    }

    #[test]
    fn what_is_replaced_no_longer_waits_but_what_was_handed_over_does() {
        let mut counts = Counts::new(10, 10_000);
        counts.add("a", None, (2.into(), None), NOW);
        handed(&mut counts, NOW);
        counts.add("a", None, (3.into(), None), NOW);
        counts.replace("a");
        assert_eq!(counts.of("a"), Some(2.into()));
    }

    #[test]
    fn the_longest_told_life_is_passed_on() {
        let mut counts = Counts::new(10, 10_000);
        counts.add("a", None, (1.into(), Some(Duration::from_millis(500))), NOW);
        counts.add("a", None, (1.into(), None), NOW);
        let (writes, _) = handed(&mut counts, Timestamp(1_100));
        assert_eq!(writes, [Write::Add { key: "a".into(), by: 2.into(), ttl: Some(Duration::from_millis(400)) }]);
    }

    #[test]
    fn the_number_and_the_bytes_are_bounded() {
        let mut counts = Counts::new(2, 10_000);
        assert!(counts.add("a", None, (1.into(), None), NOW) && counts.add("b", None, (1.into(), None), NOW));
        assert!(!counts.add("c", None, (1.into(), None), NOW) && counts.add("a", None, (1.into(), None), NOW));
        let mut counts = Counts::new(10, 2 * weight("a"));
        assert!(
            counts.add("a", None, (1.into(), None), NOW)
                && counts.add("b", None, (1.into(), None), NOW)
                && !counts.add("c", None, (1.into(), None), NOW)
        );
    }

    #[test]
    fn a_prefix_finds_both_kinds() {
        let mut counts = Counts::new(10, 10_000);
        counts.add("p:1", None, (1.into(), None), NOW);
        handed(&mut counts, NOW);
        for key in ["p:1", "p:2", "q"] {
            counts.add(key, None, (1.into(), None), NOW);
        }
        assert_eq!(counts.with_prefix("p:"), [("p:1".to_owned(), 2.into()), ("p:2".to_owned(), 1.into())]);
    }
}
