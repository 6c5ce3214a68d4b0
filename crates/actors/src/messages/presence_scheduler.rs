//! Messages of the presence scheduler.

/// The messages that the scheduler handles.
pub enum PresenceMsg {
    /// Writes a new status line now (`/refresh_status`).
    Refresh,
}
