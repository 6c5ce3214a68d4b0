//! Observers of happenings.

use domain::happening::Happening;

/// An observer of happenings, such as the log or the metrics. It is called in the task in which each happening occurs.
pub trait Observer: Send + Sync {
    /// Processes a happening. Does not block, holds locks only to record data, and stores at most what a named bound
    /// allows.
    fn observe(&self, happening: &Happening<'_>);
}
