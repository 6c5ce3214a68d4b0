//! The portions of the bot's work that this process does. They change while the program runs: it takes over ranges of
//! processes that ended, and gives ranges to processes that started.

use std::sync::Arc;

use tokio::sync::watch;

use domain::ownership::Portions;

/// The portions that this process does. Clones share them.
#[derive(Clone)]
pub struct OwnRanges(Arc<watch::Sender<Portions>>);

impl OwnRanges {
    /// Creates the portions of a process that starts.
    #[must_use]
    pub fn new(portions: Portions) -> Self {
        Self(Arc::new(watch::Sender::new(portions)))
    }

    /// Returns the portions of this moment.
    #[must_use]
    pub fn now(&self) -> Portions {
        *self.0.borrow()
    }

    /// Returns a receiver of all later portions.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Portions> {
        self.0.subscribe()
    }

    pub(crate) fn set(&self, portions: Portions) {
        self.0.send_replace(portions);
    }
}
