//! Messages of the journal.

use std::sync::Arc;
use std::time::Duration;

use super::approvals::Waiting;
use super::outbox::Delivery;
use crate::messages::receipt::Receipt;
use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use crate::tree::{HeldTurns, Scope};
use domain::ending::{Dropped, Unposted};
use domain::gate::{ApprovalDecision, Gate, GateId};
use domain::ids::{MessageId, Person, Timestamp, TurnId};
use domain::ownership::Portion;
use domain::turn::{Answer, Effort, Turn};
use ports::shares::Share;

/// The messages that the journal handles.
pub enum JournalMsg {
    /// From the gateway: an accepted turn. It is recorded and offered; the receipt is settled when the record is
    /// durable.
    Accept(Box<Accepted>),
    /// From a conversation: the answer of a turn. It is recorded and passed to the outbox.
    Answered(TurnId, Box<Answer>),
    /// From the outbox: an answer was posted. The turn is closed.
    Delivered(TurnId, Delivery),
    /// From the outbox: the platform has refused this answer this number of times over this duration; the outbox keeps
    /// retrying.
    Refused(TurnId, u32, Duration),
    /// From the outbox: this answer can never be posted. The turn is closed.
    Undeliverable(TurnId, Unposted),
    /// The trigger was deleted. The turn is closed without an answer.
    Cancel(TurnId),
    /// The turn is closed without an answer, for this reason.
    Dropped(TurnId, Dropped),
    /// An offer was not delivered: the turn is offered again at the next deadline check.
    Undelivered(TurnId),
    /// From commands: a member's data up to this moment is deleted. The member's open turns continue, but nothing about
    /// them is kept. The reply is the number of those turns, sent when the deletion is visible in the store.
    Forget(Person, Timestamp, Reply<usize>),
    /// From the task of a turn: it is about to run a tool with side effects. The reply is sent when that is durably
    /// recorded: true if it is recorded, and then the turn is not offered again.
    Acts(TurnId, Reply<bool>),
    /// From a conversation: a call of this turn requires approval. The journal records the state of the turn and
    /// releases its resources; when the record is durable, approvals asks for the decision.
    Park(TurnId, Box<Parking>),
    /// From approvals: returns all turns pending on a decision.
    Waiting(Reply<Vec<Waiting>>),
    /// From approvals: the message that shows the request was posted.
    Asked(TurnId, GateId, MessageId),
    /// From approvals: the decision about a turn. The turn resumes. The reply is true when that is recorded, and false
    /// if the turn is not pending on this decision.
    Decided(Box<Decided>, Reply<bool>),
    /// A failed actor was restarted or given up: the turns that it may have held are offered again.
    ActorRecovered(Recovered),
    /// Stops the offers of turns; accepted turns are still recorded.
    Drain,
    /// Returns the amount of remaining work.
    Left(Reply<RemainingWork>),
    /// From the app: this process owns a further portion of the turns. The reply is sent when their records are taken up.
    Adopt(Reply<()>),
    /// Returns the number of open turns of this portion that do not wait for a decision.
    LeftOf(Portion, Reply<usize>),
    /// From the app: another process is about to own this portion of the turns. The reply is sent when this process holds
    /// none of them.
    Leave(Portion, Reply<()>),
    /// From a turn that replies to the answer of the named turn. The reply is sent when the named turn is closed, or at
    /// once if it is not open.
    TellWhenClosed(TurnId, Reply<()>),
}

named!(JournalMsg: Accept, Answered, Delivered, Refused, Undeliverable, Cancel, Dropped, Undelivered, Forget, Acts, Park, Waiting, Asked, Decided, ActorRecovered, Drain, Left, Adopt, LeftOf, Leave, TellWhenClosed);

/// An accepted turn on its way to the journal.
pub struct Accepted {
    /// The turn.
    pub turn: Arc<Turn>,
    /// Its answer, if it needs no model.
    pub answer: Option<Answer>,
    /// Its permit of the limit `turn.open`.
    pub permit: Share,
    /// Settled when the record of the turn is durable.
    pub receipt: Receipt,
}

/// A turn to be parked until a decision.
pub struct Parking {
    /// The decision it requires.
    pub gate: Gate,
    /// The dialogue so far, in its stored form.
    pub dialogue: String,
    /// The resources used so far.
    pub effort: Effort,
    /// True if a tool with side effects may have run for it.
    pub acted: bool,
}

/// A decision about a parked turn.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The turn.
    pub turn: TurnId,
    /// The gate of the decision.
    pub gate: GateId,
    /// The decision.
    pub decision: ApprovalDecision,
}

/// A failed actor that may have held turns, after it was restarted or given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The turns that it may have held.
    pub held: HeldTurns,
    /// Identifies the actor among those of its kind.
    pub scope: Scope,
}

/// The amount of remaining work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemainingWork {
    /// The number of turns that are not closed.
    pub open: usize,
    /// The number of open turns with an answer that is not posted yet.
    pub undelivered: usize,
}
