//! What others may tell the sweeper of restrictions.

use crate::domain::restriction::Member;
use crate::domain::turn::Turn;

/// What the sweeper is told.
pub enum SweeperMsg {
    /// A member broke this limit. The role is given, unless they hold it.
    Breached {
        /// The turn that was refused.
        turn: Box<Turn>,
        /// Which limit it was, as metrics name it.
        tier: &'static str,
    },
    /// A restricted member addressed us where they are not answered. They are told where they are, once in a while.
    Spoke(Box<Turn>),
    /// A restricted member came back without the role.
    CameBack(Member),
}
