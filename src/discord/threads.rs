//! Which channel each thread belongs to, as far as the gateway told: messages in threads do not say it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::domain::ids::Place;

/// Threads that are known at once; those learnt first are forgotten first.
const KNOWN: usize = 20_000;

/// A bounded memory of threads.
#[derive(Debug, Default)]
pub struct Threads(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    parents: HashMap<Place, Place>,
    order: VecDeque<Place>,
}

impl Threads {
    /// Takes note of a thread and the channel it belongs to.
    pub fn learn(&self, thread: Place, parent: Place) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.parents.insert(thread.clone(), parent).is_some() {
            return;
        }
        known.order.push_back(thread);
        if known.order.len() > KNOWN
            && let Some(oldest) = known.order.pop_front()
        {
            known.parents.remove(&oldest);
        }
    }

    /// The channel that a place belongs to, when it is a known thread.
    #[must_use]
    pub fn parent(&self, place: &Place) -> Option<Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).parents.get(place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discord::DOOR;

    #[test]
    fn the_newest_threads_are_known() {
        let threads = Threads::default();
        let place = |number: usize| Place::new(DOOR, number.to_string());
        for number in 1..=KNOWN + 1 {
            threads.learn(place(number), place(0));
            threads.learn(place(number), place(number + 7));
        }
        assert_eq!(threads.parent(&place(1)), None);
        assert_eq!(threads.parent(&place(2)), Some(place(9)));
        assert_eq!(threads.parent(&place(KNOWN + 1)), Some(place(KNOWN + 8)));
    }
}
