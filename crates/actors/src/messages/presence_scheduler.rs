//! What others may tell the scheduler of the presence.

/// The messages that the scheduler handles.
pub enum PresenceMsg {
    /// A new line is written now (`/refresh_status`).
    Refresh,
}
