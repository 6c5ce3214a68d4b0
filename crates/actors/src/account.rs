//! The account of events: actors report each event once, and every reader derives its own output (log lines, metrics,
//! audit).

mod log;
mod meters;

use std::sync::Arc;

use self::log::LogLines;
use self::meters::Meters;
use domain::happening::Happening;
use ports::Observer;

/// The account to which actors report events. Clones share the same readers.
#[derive(Clone)]
pub struct Account(Arc<[Arc<dyn Observer>]>);

impl Account {
    /// An account with these readers, in addition to the log and the metrics, which every account has.
    #[must_use]
    pub fn new(readers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Self {
        let own: [Arc<dyn Observer>; 2] = [Arc::new(LogLines::default()), Arc::new(Meters::default())];
        Self(own.into_iter().chain(readers).collect())
    }

    /// Passes the event to every reader, in the caller's task.
    pub fn tell(&self, happening: &Happening<'_>) {
        for reader in &*self.0 {
            reader.observe(happening);
        }
    }
}

impl Default for Account {
    fn default() -> Self {
        Self::new([])
    }
}
