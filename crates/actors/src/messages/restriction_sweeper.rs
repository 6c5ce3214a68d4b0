//! What others may tell the sweeper of restrictions.

use std::sync::Arc;

use domain::restriction::Member;
use domain::turn::Turn;

/// The messages that the sweeper handles.
pub enum SweeperMsg {
    /// A member broke this limit. The role is given, unless they hold it.
    Breached {
        /// The turn that was refused.
        turn: Arc<Turn>,
        /// Which limit it was, as metrics name it.
        tier: &'static str,
    },
    /// A restricted member addressed us where they are not answered. They get a notice, at most one in its interval.
    Spoke(Arc<Turn>),
    /// A restricted member came back without the role.
    CameBack(Member),
    /// A member with a record who stayed spoke without the role: a moderator took it.
    Lifted(Member),
}
