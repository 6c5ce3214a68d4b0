//! What others may tell and ask the limiter.

use super::conversations::Offered;
use crate::actors::handle::Reply;
use crate::domain::ids::{Person, Place};
use crate::domain::limits::Standing;
use crate::domain::turn::{Effort, Turn};

/// What the limiter is told and asked.
pub enum RateLimiterMsg {
    /// The journal offers a turn; offering twice does no harm. It goes to conversations, or back as refused.
    Admit(Box<Offered>),
    /// The answer to a turn is known, and this is what it took.
    Settle {
        /// The turn.
        turn: Box<Turn>,
        /// What it took.
        effort: Effort,
    },
    /// There will be no answer to a turn but an apology, or none at all: it costs nothing.
    Cancel(Box<Turn>),
    /// The trigger of a turn was deleted: if it is not admitted yet it costs nothing, else whoever has it is told.
    Withdraw(Box<Turn>),
    /// Somebody wants to know how a member stands.
    Usage {
        /// About whom.
        asker: Box<Asker>,
        /// How they stand.
        reply: Reply<Standing>,
    },
}

/// About whom and where a standing is asked for.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The member.
    pub person: Person,
    /// The community.
    pub guild: Option<String>,
    /// Ids of their roles.
    pub roles: Vec<String>,
    /// The place whose limits hold.
    pub place: Place,
    /// The place above it.
    pub parent: Option<Place>,
}
