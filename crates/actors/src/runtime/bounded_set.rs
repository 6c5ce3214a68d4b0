//! A bounded set that keeps the most recent values.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;

/// Holds the last `MOST` inserted values; the oldest is evicted first.
///
/// It stores a keyed 64-bit digest of each value and allocates nothing per value: there may be 100,000 values, and
/// long-lived allocations among short-lived ones prevent the allocator from returning memory. A new value collides with
/// one of 100,000 digests with probability 10^-14; the key is random per set, so a sender cannot provoke a collision.
pub struct BoundedSet<T, const MOST: usize> {
    key: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
    of: PhantomData<fn(T)>,
}

impl<T, const MOST: usize> Default for BoundedSet<T, MOST> {
    fn default() -> Self {
        Self { key: RandomState::new(), known: HashSet::new(), order: VecDeque::new(), of: PhantomData }
    }
}

impl<T: Hash, const MOST: usize> BoundedSet<T, MOST> {
    /// True if the value is one of the last `MOST`.
    pub fn contains(&self, value: &T) -> bool {
        self.known.contains(&self.digest(value))
    }

    /// Inserts a value; returns false if it is present, and then its age does not change.
    pub fn insert(&mut self, value: &T) -> bool {
        let digest = self.digest(value);
        if !self.known.insert(digest) {
            return false;
        }
        self.order.push_back(digest);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    fn digest(&self, value: &T) -> u64 {
        self.key.hash_one(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut bounded_set = BoundedSet::<u32, 2>::default();
        let new = [1, 2, 1, 3].map(|value| bounded_set.insert(&value));
        assert_eq!(new, [true, true, false, true]);
        assert!(!bounded_set.contains(&1) && bounded_set.contains(&2) && bounded_set.contains(&3));
        assert_eq!((bounded_set.known.len(), bounded_set.order.len()), (2, 2));
    }
}
