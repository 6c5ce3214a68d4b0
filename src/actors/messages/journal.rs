//! What others may tell and ask the journal.

use tokio::sync::OwnedSemaphorePermit;

use super::outbox::Delivery;
use crate::actors::handle::Reply;
use crate::actors::receipt::Receipt;
use crate::actors::tree::{ActorKind, Scope};
use crate::domain::ending::{Dropped, Unposted};
use crate::domain::ids::{Person, Timestamp, TurnId};
use crate::domain::turn::{Answer, Turn};

/// What the journal is told and asked.
pub enum JournalMsg {
    /// The gateway accepted a turn. It is recorded and offered; the receipt is settled once the record is durable.
    Accept(Box<Accepted>),
    /// A conversation found the answer. It is recorded and handed to the outbox.
    Answered(TurnId, Box<Answer>),
    /// The outbox posted an answer. The turn is closed.
    Delivered(TurnId, Delivery),
    /// The outbox will never be able to post this answer. The turn is closed.
    Undeliverable(TurnId, Unposted),
    /// The trigger was deleted. The turn is closed without an answer.
    Cancel(TurnId),
    /// The turn is closed without an answer, for this reason.
    Dropped(TurnId, Dropped),
    /// Nobody was there for an offered turn: it is offered again with the next look at deadlines.
    Undelivered(TurnId),
    /// Commands: this person wishes to be forgotten, with all that was asked up to this moment. Their open turns go on, but
    /// nothing is kept of them. Answered by how many those are, once that is visible in the store.
    Forget(Person, Timestamp, Reply<usize>),
    /// An actor that failed runs anew or is gone: what it may have held is offered again.
    ActorRecovered(Recovered),
    /// From now on nothing is offered; what comes is only recorded.
    Drain,
    /// How much is left to do.
    Left(Reply<Left>),
    /// A turn replies to the answer of this one, and wants to know when that one is closed; answered at once if it is not open.
    TellWhenClosed(TurnId, Reply<()>),
}

/// A turn on its way into custody.
pub struct Accepted {
    /// The turn.
    pub turn: Turn,
    /// Its answer, when it needs no model.
    pub answer: Option<Answer>,
    /// Its place among all open turns.
    pub permit: OwnedSemaphorePermit,
    /// Settled when the turn is durably recorded.
    pub receipt: Receipt,
}

/// An actor that failed, after it was started again or given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// What it is.
    pub kind: ActorKind,
    /// Which one of its kind it is.
    pub scope: Scope,
}

/// How much is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Turns that are not closed.
    pub open: usize,
    /// Those of them whose answer is known and not posted.
    pub undelivered: usize,
}
