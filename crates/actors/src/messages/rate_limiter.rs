//! Messages of the rate limiter.

use std::sync::Arc;

use super::conversations::OfferedTurn;
use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::ids::{Person, Place};
use domain::limits::Standing;
use domain::people::Linked;
use domain::turn::{Effort, Turn};

/// The messages that the limiter handles.
pub enum RateLimiterMsg {
    /// From the journal: offers a turn. Idempotent by the turn's id. The limiter passes it to conversations, or returns
    /// it as refused.
    Admit(Box<OfferedTurn>),
    /// A turn resumes after a decision. Its further use is counted under its own id, the id of the part that follows;
    /// it is never refused. Idempotent.
    GoesOn(Arc<Turn>),
    /// Settles the use of a turn whose answer is known.
    Settle {
        /// The turn.
        turn: Arc<Turn>,
        /// The resources that it used.
        effort: Effort,
    },
    /// The turn ends with an apology or without any answer: it costs nothing.
    Cancel(Arc<Turn>),
    /// The trigger of a turn was deleted: before its admission it costs nothing; after it, the holder of the turn is
    /// notified.
    Withdraw(Arc<Turn>),
    /// Returns the use and the limits of a member.
    Usage {
        /// The member and the place.
        asker: Box<Asker>,
        /// The reply with the use and the limits.
        reply: Reply<Standing>,
    },
}

named!(RateLimiterMsg: Admit, GoesOn, Settle, Cancel, Withdraw, Usage);

/// The member and the place of a request for a standing.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The member.
    pub person: Person,
    /// All accounts of the member.
    pub linked: Linked,
    /// The id of the community; `None` in a direct message.
    pub guild: Option<String>,
    /// The ids of the member's roles.
    pub roles: Vec<String>,
    /// The place whose limits apply.
    pub place: Place,
    /// The parent place, such as the channel of a thread; `None` if there is none.
    pub parent: Option<Place>,
}
