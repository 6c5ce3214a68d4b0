//! Messages of the presence scheduler.

use crate::runtime::named::named;

/// The messages that the scheduler handles.
pub enum PresenceMsg {
    /// Writes a new status line now (`/refresh_status`).
    Refresh,
}

named!(PresenceMsg: Refresh);
