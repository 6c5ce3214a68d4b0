//! Which turns are in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TurnId;

/// The turns that are in flight in this process. Lives outside the actors: it knows them whoever is started again.
#[derive(Default)]
pub struct InFlight(Mutex<HashMap<TurnId, usize>>);

impl InFlight {
    /// How many there are now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.lock().values().sum()
    }

    /// Somebody works on this turn now, or has its answer and is about to hand it on.
    #[must_use]
    pub fn has(&self, turn: &TurnId) -> bool {
        self.0.lock().contains_key(turn)
    }

    /// One more, for as long as the guard lives.
    #[must_use]
    pub fn enter(self: &Arc<Self>, turn: &TurnId) -> Flight {
        *self.0.lock().entry(turn.clone()).or_default() += 1;
        Flight(Arc::clone(self), turn.clone())
    }
}

/// One turn in flight.
pub struct Flight(Arc<InFlight>, TurnId);

impl Drop for Flight {
    fn drop(&mut self) {
        if let Entry::Occupied(mut flights) = self.0.0.lock().entry(self.1.clone()) {
            *flights.get_mut() -= 1;
            if *flights.get() == 0 {
                flights.remove();
            }
        }
    }
}
