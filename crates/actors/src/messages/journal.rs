//! What others may tell and ask the journal.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::approvals::Waiting;
use super::outbox::Delivery;
use crate::messages::receipt::Receipt;
use crate::runtime::handle::Reply;
use crate::tree::{ActorKind, Scope};
use domain::ending::{Dropped, Unposted};
use domain::gate::{Decision, Gate, GateId};
use domain::ids::{MessageId, Person, Timestamp, TurnId};
use domain::turn::{Answer, Effort, Turn};

/// The messages that the journal handles.
pub enum JournalMsg {
    /// The gateway accepted a turn. It is recorded and offered; the receipt is settled once the record is durable.
    Accept(Box<Accepted>),
    /// A conversation found the answer. It is recorded and handed to the outbox.
    Answered(TurnId, Box<Answer>),
    /// The outbox posted an answer. The turn is closed.
    Delivered(TurnId, Delivery),
    /// The outbox: the platform refused this answer so often, for so long; the outbox goes on trying.
    Refused(TurnId, u32, Duration),
    /// The outbox will never be able to post this answer. The turn is closed.
    Undeliverable(TurnId, Unposted),
    /// The trigger was deleted. The turn is closed without an answer.
    Cancel(TurnId),
    /// The turn is closed without an answer, for this reason.
    Dropped(TurnId, Dropped),
    /// An offer was undelivered: the turn is offered again at the next check of deadlines.
    Undelivered(TurnId),
    /// From commands: a person's data up to this moment is deleted. Their open turns go on, but nothing is kept of them. The reply
    /// is the number of those turns, sent once that is visible in the store.
    Forget(Person, Timestamp, Reply<usize>),
    /// The task of a turn is about to run a tool that changes something. Answered once that is durably recorded: true when it
    /// is, and then the turn is not handed out again.
    Acts(TurnId, Reply<bool>),
    /// A conversation: a call of this turn has to be approved. The turn is written down as far as it is, and what it holds is given
    /// back; when that is durable, approvals asks.
    Park(TurnId, Box<Parking>),
    /// approvals: all turns that wait for a decision.
    Waiting(Reply<Vec<Waiting>>),
    /// approvals: the message that asks stands there.
    Asked(TurnId, GateId, MessageId),
    /// approvals: it is decided. The turn goes on. True once that is on record; false when the turn does not wait for it.
    Decided(Box<Decided>, Reply<bool>),
    /// An actor that failed runs anew or is gone: what it may have held is offered again.
    ActorRecovered(Recovered),
    /// From now on no turn is offered; accepted ones are recorded.
    Drain,
    /// How much is left to do.
    Left(Reply<Left>),
    /// A turn replies to the answer of this one. The reply comes when this one is closed, or at once if it is not open.
    TellWhenClosed(TurnId, Reply<()>),
}

/// A turn on its way into custody.
pub struct Accepted {
    /// The turn.
    pub turn: Arc<Turn>,
    /// Its answer, when it needs no model.
    pub answer: Option<Answer>,
    /// Its permit of `turn.open`.
    pub permit: OwnedSemaphorePermit,
    /// Settled when the turn is durably recorded.
    pub receipt: Receipt,
}

/// A turn that is to wait for a decision.
pub struct Parking {
    /// What it waits for.
    pub gate: Gate,
    /// What was said so far, as it is stored.
    pub dialogue: String,
    /// What it took so far.
    pub effort: Effort,
    /// A tool that changes something may have run for it.
    pub acted: bool,
}

/// A decision about a turn that waits.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The turn.
    pub turn: TurnId,
    /// What it waits for.
    pub gate: GateId,
    /// The decision.
    pub decision: Decision,
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
