//! What others may tell the scheduler of the presence.

/// What the scheduler is told.
pub enum PresenceMsg {
    /// Somebody wants another line now.
    Refresh,
}
