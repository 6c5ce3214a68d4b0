//! The turns that an actor may hold, and the processes that run it.

use domain::ownership::Portions;

/// The processes of a divided bot that run an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Each active process.
    InEachRange,
    /// The owner of the first range: the work needs exactly one process, or its platform does not divide its events.
    InFirstRange,
}

impl Runs {
    /// True if the process with these portions of the work runs the actor.
    #[must_use]
    pub const fn is_for(self, portions: Portions) -> bool {
        match self {
            Self::InEachRange => true,
            Self::InFirstRange => portions.is_first(),
        }
    }
}

/// The turns that an actor may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldTurns {
    /// Turns that are not yet admitted.
    Unadmitted,
    /// Turns without an answer.
    Unanswered,
    /// Turns whose answer is not yet posted.
    Answered,
}
