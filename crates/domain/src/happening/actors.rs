//! Changes in the life of an actor.

use std::time::Duration;

/// A change in the life of an actor.
#[derive(Debug, Clone, Copy)]
pub enum ActorChange<'a> {
    /// A supervisor accepted the actor as its child; the start follows.
    Added,
    /// The actor started.
    Started,
    /// The actor stopped as intended, for this reason if it is not the actor's own decision.
    Stopped(Option<&'static str>),
    /// The actor panicked or returned an error.
    Failed {
        /// The error text.
        error: &'a str,
        /// The kind of the input in the handler; `nothing` outside of a handler.
        handling: &'static str,
    },
    /// The actor is restarted for this time, counted from 1.
    Restarted(u64),
    /// The actor gave up its children and fails itself.
    Escalated {
        /// The path of the child that failed last.
        child: &'a str,
        /// The maximum number of restarts in the period.
        restarts: u32,
        /// The period.
        period: Duration,
    },
    /// A handler exceeds the time limit of its row.
    Hung {
        /// The kind of the input in the handler.
        handling: &'static str,
        /// The time since the handler began.
        ran: Duration,
        /// The reaction of the watchdog.
        action: &'static str,
    },
    /// A killed handler still runs, because it blocks its thread.
    Blocked(Duration),
    /// An input of this kind was discarded, because the actor failed at it repeatedly.
    Poisoned(&'static str),
    /// A full mailbox has room again.
    Overflowed {
        /// The capacity of the mailbox.
        capacity: usize,
        /// The number of messages refused so far.
        refused: u64,
    },
}
