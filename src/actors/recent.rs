//! The last so many of something.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// A set of at most `MOST` values; the oldest is forgotten first.
pub struct Recent<T, const MOST: usize> {
    known: HashSet<T>,
    order: VecDeque<T>,
}

impl<T, const MOST: usize> Default for Recent<T, MOST> {
    fn default() -> Self {
        Self { known: HashSet::new(), order: VecDeque::new() }
    }
}

impl<T: Clone + Eq + Hash, const MOST: usize> Recent<T, MOST> {
    /// It is one of the last.
    pub fn contains(&self, value: &T) -> bool {
        self.known.contains(value)
    }

    /// Takes note of a value; one that is known keeps its age.
    pub fn insert(&mut self, value: T) {
        if !self.known.insert(value.clone()) {
            return;
        }
        self.order.push_back(value);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = Recent::<u32, 2>::default();
        for value in [1, 2, 1, 3] {
            recent.insert(value);
        }
        assert!(!recent.contains(&1) && recent.contains(&2) && recent.contains(&3));
        assert_eq!((recent.known.len(), recent.order.len()), (2, 2));
    }
}
