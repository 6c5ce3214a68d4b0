//! The turns in flight.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::messages::deadline::Deadline;
use domain::ids::TurnId;

/// The turns in flight in this process. It lives outside the actors, so it survives their restarts.
#[derive(Default)]
pub struct InFlight(Mutex<HashMap<TurnId, Flying>>);

/// The state of a turn in flight.
#[derive(Default)]
struct Flying {
    /// The number of guards of this turn.
    many: usize,
    /// The deadline of the turn, once it has started.
    deadline: Option<Deadline>,
}

impl InFlight {
    /// Returns the number of turns in flight.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.lock().values().map(|flying| flying.many).sum()
    }

    /// True if an actor works on this turn now, or holds its answer for hand-over.
    #[must_use]
    pub fn has(&self, turn: &TurnId) -> bool {
        self.0.lock().contains_key(turn)
    }

    /// Sets the deadline of a turn in flight.
    pub fn due(&self, turn: &TurnId, deadline: &Deadline) {
        if let Some(flying) = self.0.lock().get_mut(turn) {
            flying.deadline = Some(deadline.clone());
        }
    }

    /// True if a turn is in flight and its deadline has not passed.
    #[must_use]
    pub fn is_in_time(&self, turn: &TurnId) -> bool {
        self.0.lock().get(turn).and_then(|flying| flying.deadline.as_ref()).is_some_and(|due| !due.has_passed())
    }

    /// Counts the turn as in flight while the guard lives.
    #[must_use]
    pub fn enter(self: &Arc<Self>, turn: &TurnId) -> Flight {
        self.0.lock().entry(turn.clone()).or_default().many += 1;
        Flight(Arc::clone(self), turn.clone())
    }
}

/// One turn in flight.
pub struct Flight(Arc<InFlight>, TurnId);

impl Drop for Flight {
    fn drop(&mut self) {
        if let Entry::Occupied(mut flights) = self.0.0.lock().entry(self.1.clone()) {
            flights.get_mut().many -= 1;
            if flights.get().many == 0 {
                flights.remove();
            }
        }
    }
}
