//! What others may tell and ask approvals.

use crate::runtime::handle::Reply;
use domain::gate::allowance::Allowance;
use domain::gate::{Click, Decision, Gate, Refusal};
use domain::ids::{MessageId, Person};

/// The messages that approvals handles.
pub enum ApprovalsMsg {
    /// The journal: a turn waits for this decision, and that is on record. Whoever decides is asked.
    Ask(Box<Waiting>),
    /// The journal: a turn that waited is over without this decision. Nobody is asked any more.
    Gone(Box<Waiting>),
    /// The gateway: somebody decides. They are answered, and the journal is told what holds; whoever waits for the outcome is the
    /// reply.
    Decide(Box<Click>, Option<Reply<Result<Decision, Refusal>>>),
    /// Commands: everything that waits for a decision, the first to end first.
    List(Reply<Vec<Gate>>),
    /// Commands: allowances are taken back. The reply is how many there were, once that is durable.
    Withdraw(Withdrawal, Reply<usize>),
}

/// Which allowances are taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawal {
    /// The one of this id.
    One {
        /// Its id.
        id: String,
        /// Who takes it back.
        by: Person,
        /// Also where it does not concern them: they are an operator.
        any: bool,
    },
    /// All that concern somebody who wishes to be forgotten.
    Of(Person),
}

impl Withdrawal {
    /// Whether it takes this one back.
    #[must_use]
    pub fn takes_back(&self, allowance: &Allowance) -> bool {
        match self {
            Self::One { id, by, any } => allowance.id == *id && (*any || allowance.concerns(by)),
            Self::Of(person) => allowance.concerns(person),
        }
    }
}

/// A decision that a turn waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What is asked.
    pub gate: Gate,
    /// The message that asks, where it is known.
    pub posted: Option<MessageId>,
}
