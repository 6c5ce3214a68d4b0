//! The last so many of something.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::marker::PhantomData;

/// Knows the last `MOST` values that it was told; the oldest is forgotten first.
///
/// Of each value it holds a digest of 64 bits under a key of its own, and no allocation: there may be a hundred thousand of
/// them, and what lives for long among things that come and go keeps the allocator from giving memory back. That a new value
/// has the digest of one of a hundred thousand happens once in 10^14 times, and nobody can bring it about.
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
    /// It is one of the last.
    pub fn contains(&self, value: &T) -> bool {
        self.known.contains(&self.digest(value))
    }

    /// Takes note of a value; false when it is known, and then it keeps its age.
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
