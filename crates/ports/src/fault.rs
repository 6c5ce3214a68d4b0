//! Fault injection.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::Faults;

/// An injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Panic in the handler.
    Panic,
    /// Return an error from the handler.
    Error,
    /// Block the handler forever.
    Hang,
    /// Delay the handler by this time, then continue.
    Delay(Duration),
}

/// The input that an actor is about to handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A message of another actor, with its subject if it is resent after a loss.
    Message(Option<Subject>),
    /// An event of the actor's own timers and tasks.
    Event(Origin),
}

impl Input {
    /// Returns the subject, if the input is resent after a loss.
    #[must_use]
    pub const fn subject(self) -> Option<Subject> {
        match self {
            Self::Message(subject) | Self::Event(Origin::Outside(subject)) => subject,
            Self::Event(Origin::Own) => None,
        }
    }

    /// True if the content comes from outside the actor: a failure then does not show that the actor itself is
    /// broken.
    #[must_use]
    pub const fn is_outside(self) -> bool {
        match self {
            Self::Message(_) | Self::Event(Origin::Outside(_)) => true,
            Self::Event(Origin::Own) => false,
        }
    }

    /// Returns the word used in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Event(_) => "event",
        }
    }
}

/// The origin of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The actor itself: a timer, or the end of a task.
    Own,
    /// A platform's wire, with its subject if it is read again after a loss.
    Outside(Option<Subject>),
}

/// The subject of a message, as a hash: the same each time it is resent after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject(u64);

impl Subject {
    /// Returns the subject with this name.
    #[must_use]
    pub fn of(name: &(impl Hash + ?Sized)) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// An implementation without faults.
pub struct NoFaults;

impl Faults for NoFaults {
    fn before(&self, _path: &str, _input: Input) -> Option<Fault> {
        None
    }
}
