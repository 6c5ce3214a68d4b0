//! Failure that is injected on purpose, and what it takes the place of.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::Faults;

/// An injected failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Panic in the handler.
    Panic,
    /// Return an error from the handler.
    Error,
    /// Never come back from the handler.
    Hang,
    /// Take so long in the handler, and go on.
    Delay(Duration),
}

/// What an actor is about to handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A message of another actor; its subject, if it is sent again after it was lost.
    Message(Option<Subject>),
    /// An event of the actor's own timers and tasks.
    Event(Origin),
}

impl Input {
    /// What it is about, if it comes again after it was lost.
    #[must_use]
    pub const fn subject(self) -> Option<Subject> {
        match self {
            Self::Message(subject) | Self::Event(Origin::Outside(subject)) => subject,
            Self::Event(Origin::Own) => None,
        }
    }

    /// Whether somebody outside of the actor decides what it holds: an actor that fails at it may be well.
    #[must_use]
    pub const fn is_outside(self) -> bool {
        match self {
            Self::Message(_) | Self::Event(Origin::Outside(_)) => true,
            Self::Event(Origin::Own) => false,
        }
    }

    /// The word in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Event(_) => "event",
        }
    }
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The actor itself: a timer, the end of a task.
    Own,
    /// The wire of a platform; its subject, if it is read again after it was lost.
    Outside(Option<Subject>),
}

/// What a message is about, as a hash: the same for each message that is sent again after it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject(u64);

impl Subject {
    /// The subject with this name.
    #[must_use]
    pub fn of(name: &(impl Hash + ?Sized)) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// No failure at all.
pub struct NoFaults;

impl Faults for NoFaults {
    fn before(&self, _path: &str, _input: Input) -> Option<Fault> {
        None
    }
}
