//! Messages of the restriction sweeper.

use std::sync::Arc;

use crate::runtime::named::named;
use domain::ids::Person;
use domain::restriction::Member;
use domain::turn::Turn;

/// The messages that the sweeper handles.
pub enum SweeperMsg {
    /// A member exceeded this limit. The sweeper assigns the role, unless the member holds it.
    Breached {
        /// The refused turn.
        turn: Arc<Turn>,
        /// The limit, by its name in metrics.
        tier: &'static str,
    },
    /// A restricted member addressed the bot where it does not answer them. The member gets a notice, at most one per
    /// interval.
    Spoke(Arc<Turn>),
    /// A restricted member rejoined without the role.
    CameBack(Member),
    /// A member with a restriction record, who had not left, posted without the role: a moderator removed the role.
    Lifted(Member),
    /// The restriction of this account confined its person in a direct message, or at a linked account.
    Confines(Person),
}

named!(SweeperMsg: Breached, Spoke, CameBack, Lifted, Confines);
