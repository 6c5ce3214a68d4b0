//! A fair queue: the first entry of each key is served before the second entry of any other.
//!
//! Each entry belongs to a round, one later than the previous waiting entry of its key, so a burst of one key does
//! not delay single entries of others. To prevent starvation by a stream of new keys, every eighth entry is taken by
//! age.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// One in this many entries is taken by age.
const BY_AGE: u64 = 8;

/// The waiting entries with their keys. The caller bounds their number.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    /// By round, then by age.
    waiting: BTreeMap<(u64, u64), (K, T)>,
    /// The round of each entry, by age.
    rounds: BTreeMap<u64, u64>,
    /// For each waiting key: its last round and the number of its entries.
    known: HashMap<K, (u64, usize)>,
    round: u64,
    came: u64,
    taken: u64,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), rounds: BTreeMap::new(), known: HashMap::new(), round: 0, came: 0, taken: 0 }
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// True if the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds an entry.
    pub fn push(&mut self, who: K, what: T) {
        let current = self.round;
        let (last, many) = self.known.entry(who.clone()).or_insert((current, 0));
        *last = if *many == 0 { current } else { (*last + 1).max(current) };
        *many += 1;
        let place = (*last, self.came);
        self.came += 1;
        self.rounds.insert(place.1, place.0);
        self.waiting.insert(place, (who, what));
    }

    /// Takes the next entry that `may` admits. The cost grows with the number of entries that are passed over.
    pub fn pop(&mut self, may: impl Fn(&K, &T) -> bool) -> Option<T> {
        let by_age = (self.taken + 1).is_multiple_of(BY_AGE);
        let admitted = |place: &(u64, u64)| self.waiting.get(place).is_some_and(|(who, what)| may(who, what));
        let first = if by_age {
            self.rounds.iter().map(|(came, round)| (*round, *came)).find(admitted)
        } else {
            self.waiting.keys().copied().find(admitted)
        }?;
        self.taken += 1;
        let (who, what) = self.waiting.remove(&first)?;
        self.rounds.remove(&first.1);
        if !by_age {
            self.round = self.round.max(first.0);
        }
        if let Some((_, many)) = self.known.get_mut(&who) {
            *many -= 1;
            if *many == 0 {
                self.known.remove(&who);
            }
        }
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &mut FairQueue<&'static str, &'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop(|_, _| true)).collect()
    }

    #[test]
    fn people_who_wait_once_are_served_as_they_came() {
        let mut queue = FairQueue::default();
        for who in ["ada", "ben", "chloe"] {
            queue.push(who, who);
        }
        assert_eq!(order(&mut queue), ["ada", "ben", "chloe"]);
        assert!(queue.is_empty() && queue.known.is_empty() && queue.rounds.is_empty());
    }

    #[test]
    fn a_burst_of_one_stands_behind_the_first_of_everybody() {
        let mut queue = FairQueue::default();
        for what in ["a1", "a2", "a3"] {
            queue.push("ada", what);
        }
        queue.push("ben", "b1");
        queue.push("chloe", "c1");
        queue.push("ben", "b2");
        assert_eq!(order(&mut queue), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    #[test]
    fn who_comes_later_still_stands_before_the_rest_of_a_burst() {
        let mut queue = FairQueue::default();
        for what in ["a1", "a2", "a3", "a4"] {
            queue.push("ada", what);
        }
        assert_eq!((queue.pop(|_, _| true), queue.pop(|_, _| true)), (Some("a1"), Some("a2")));
        queue.push("ben", "b1");
        assert_eq!(order(&mut queue), ["b1", "a3", "a4"]);
    }

    #[test]
    fn new_people_never_keep_a_second_question_waiting_for_ever() {
        let mut queue = FairQueue::default();
        queue.push("ada", "a1");
        queue.push("ada", "a2");
        let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let mut served = Vec::new();
        for name in &names {
            queue.push(name.as_str(), "other");
            queue.push(name.as_str(), "more");
            served.extend(queue.pop(|_, _| true));
        }
        let at = served.iter().position(|what| *what == "a2").expect("the entry was served");
        assert!(at < usize::try_from(BY_AGE).unwrap(), "{at}");
    }

    #[test]
    fn keys_that_are_not_admitted_are_passed_over_and_keep_their_place() {
        let mut queue = FairQueue::default();
        for what in ["a1", "a2"] {
            queue.push("ada", what);
        }
        queue.push("ben", "b1");
        assert_eq!(queue.pop(|who, _| *who != "ada"), Some("b1"));
        assert_eq!(queue.pop(|who, _| *who != "ada"), None);
        assert_eq!(order(&mut queue), ["a1", "a2"]);
    }
}
