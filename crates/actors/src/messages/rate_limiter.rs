//! What others may tell and ask the limiter.

use std::sync::Arc;

use super::conversations::Offered;
use crate::runtime::handle::Reply;
use domain::ids::{Person, Place};
use domain::limits::Standing;
use domain::turn::{Effort, Turn};

/// The messages that the limiter handles.
pub enum RateLimiterMsg {
    /// The journal offers a turn. Idempotent by the turn's id. It goes to conversations, or back as refused.
    Admit(Box<Offered>),
    /// A turn goes on after a decision. What it takes from here on counts by itself, under the id of this turn, which is that of the
    /// part that follows; it is never refused. Idempotent.
    GoesOn(Arc<Turn>),
    /// The answer to a turn is known, and this is what it took.
    Settle {
        /// The turn.
        turn: Arc<Turn>,
        /// What it took.
        effort: Effort,
    },
    /// There will be no answer to a turn but an apology, or none at all: it costs nothing.
    Cancel(Arc<Turn>),
    /// The trigger of a turn was deleted: before its admission it costs nothing, afterwards its holder is told.
    Withdraw(Arc<Turn>),
    /// Asks for the use and the limits of a member.
    Usage {
        /// About whom.
        asker: Box<Asker>,
        /// The use and the limits.
        reply: Reply<Standing>,
    },
}

/// About whom and where a standing is asked for.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The member.
    pub person: Person,
    /// The id of the community; none in a direct message.
    pub guild: Option<String>,
    /// Ids of their roles.
    pub roles: Vec<String>,
    /// The place whose limits hold.
    pub place: Place,
    /// The place above it, such as the channel of a thread; none when there is none.
    pub parent: Option<Place>,
}
