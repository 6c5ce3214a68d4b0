//! The finished turns of the last while.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::domain::ids::TurnId;

/// The most finished turns remembered in memory.
const CLOSED_MAX: usize = 100_000;

/// The finished turns of the last while, oldest forgotten first.
#[derive(Default)]
pub(super) struct Remembered {
    known: HashSet<Arc<TurnId>>,
    order: VecDeque<Arc<TurnId>>,
}

impl Remembered {
    pub(super) fn contains(&self, id: &TurnId) -> bool {
        self.known.contains(id)
    }

    pub(super) fn insert(&mut self, id: TurnId) {
        let id = Arc::new(id);
        if !self.known.insert(Arc::clone(&id)) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > CLOSED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::testing::turn_id;

    #[test]
    fn only_so_many_finished_turns_are_remembered_oldest_forgotten_first() {
        let mut remembered = Remembered::default();
        for number in 0..=CLOSED_MAX {
            remembered.insert(turn_id(&(number + 1).to_string()));
        }
        assert_eq!((remembered.known.len(), remembered.order.len()), (CLOSED_MAX, CLOSED_MAX));
        assert!(!remembered.contains(&turn_id("1")));
        assert!(remembered.contains(&turn_id("2")));
    }
}
