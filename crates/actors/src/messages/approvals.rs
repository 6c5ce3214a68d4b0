//! Messages of the approvals actor.

use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::gate::allowance::Allowance;
use domain::gate::overview::GatesOverview;
use domain::gate::{ApprovalDecision, Click, ClickRefusal, Gate, GateId};
use domain::ids::{MessageId, Person};

/// The messages that approvals handles.
pub enum ApprovalsMsg {
    /// From the journal: a turn is recorded as pending this decision. The approvers are asked.
    Ask(Box<Waiting>),
    /// From the journal: a pending turn ended without this decision. The request is withdrawn.
    Gone(Box<Waiting>),
    /// From the journal: another process owns the turn of this gate from now on, and handles the request.
    Moved(GateId),
    /// From the gateway: a member decides. The member is answered, and the journal receives the decision that holds.
    /// The reply, if any, carries the outcome.
    Decide(Box<Click>, Option<Reply<Result<ApprovalDecision, ClickRefusal>>>),
    /// From commands: returns all pending decisions, the first to expire first.
    List(Reply<Vec<Gate>>),
    /// From the pages of operators: returns an overview of all pending decisions.
    Overview(Reply<GatesOverview>),
    /// From commands: revokes allowances. The reply is their number, sent when the revocation is durable.
    Withdraw(Withdrawal, Reply<usize>),
}

named!(ApprovalsMsg: Ask, Gone, Moved, Decide, List, Overview, Withdraw);

/// The selection of allowances to revoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawal {
    /// The allowance of this id.
    One {
        /// The id of the allowance.
        id: String,
        /// The member who revokes it.
        by: Person,
        /// True for an operator, who may also revoke allowances that concern other members.
        any: bool,
    },
    /// All allowances that concern a member who asked for the deletion of their data.
    Of(Person),
}

impl Withdrawal {
    /// True if this allowance is revoked.
    #[must_use]
    pub fn takes_back(&self, allowance: &Allowance) -> bool {
        match self {
            Self::One { id, by, any } => allowance.id == *id && (*any || allowance.concerns(by)),
            Self::Of(person) => allowance.concerns(person),
        }
    }
}

/// A decision that a turn is pending on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The request for the decision.
    pub gate: Gate,
    /// The message that shows the request; `None` if it is not known.
    pub posted: Option<MessageId>,
}
