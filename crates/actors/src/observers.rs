//! The observers of events: actors report each event once, and every observer derives its own output (log lines, metrics,
//! audit).

mod log;
mod meters;

use std::sync::Arc;

use self::log::LogLines;
use self::meters::Meters;
use domain::happening::Happening;
use ports::Observer;

/// The observers to which actors report events. Clones are the same observers.
#[derive(Clone)]
pub struct Observers(Arc<[Arc<dyn Observer>]>);

impl Observers {
    /// These observers, in addition to the log and the metrics, which are always among them.
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

impl Default for Observers {
    fn default() -> Self {
        Self::new([])
    }
}
