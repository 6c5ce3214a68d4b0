//! Turns that came lately. A message that is read back from its channel while it also arrives over the connection comes twice: the copy
//! of one that was turned away is not admitted, and the copy of one that is open is not turned away.

use std::collections::{HashMap, VecDeque};

use crate::domain::ids::TurnId;

/// The most turns that are remembered. The oldest is forgotten first.
const LATELY_MAX: usize = 4_096;

/// What became of a turn when it came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// The journal was given it.
    Accepted,
    /// It was turned away, because too many turns were open.
    Shed,
}

/// The turns that came lately.
#[derive(Default)]
pub(super) struct Lately {
    known: HashMap<TurnId, Came>,
    order: VecDeque<TurnId>,
}

impl Lately {
    /// What became of this turn; none if it did not come lately.
    pub(super) fn of(&self, turn: &TurnId) -> Option<Came> {
        self.known.get(turn).copied()
    }

    pub(super) fn note(&mut self, turn: &TurnId, came: Came) {
        if self.known.insert(turn.clone(), came).is_some() {
            return;
        }
        self.order.push_back(turn.clone());
        if self.order.len() > LATELY_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
