//! The account of what happens: actors tell it once, and each reader makes of it what it is for.

mod log;
mod meters;

use std::sync::Arc;

use self::log::LogLines;
use self::meters::Meters;
use domain::happening::Happening;
use ports::Observer;

/// The place where what happens is told. Clones are the same account.
#[derive(Clone)]
pub struct Account(Arc<[Arc<dyn Observer>]>);

impl Account {
    /// An account with these readers beside the log and the metrics, which every account has.
    #[must_use]
    pub fn new(readers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Self {
        let own: [Arc<dyn Observer>; 2] = [Arc::new(LogLines), Arc::new(Meters::default())];
        Self(own.into_iter().chain(readers).collect())
    }

    /// Tells every reader, in the caller's own task.
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
