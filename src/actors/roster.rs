//! Who lives: the counts of every actor of one tree, by path, for health lines, the tree page and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::handle::Stats;

/// The living actors of one tree. Supervisors enter and remove their children; everybody else reads.
#[derive(Default)]
pub struct Roster {
    actors: Mutex<BTreeMap<Arc<str>, Arc<Stats>>>,
}

impl Roster {
    /// All actors, by path.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Stats>> {
        self.actors.lock().values().cloned().collect()
    }

    pub(super) fn enter(&self, stats: Arc<Stats>) {
        self.actors.lock().insert(Arc::clone(&stats.path), stats);
    }

    pub(super) fn leave(&self, path: &str) {
        self.actors.lock().remove(path);
    }

    /// Forgets what lived below an actor that starts anew.
    pub(super) fn prune_below(&self, path: &str) {
        let prefix = format!("{path}/");
        self.actors.lock().retain(|known, _| !known.starts_with(&prefix));
    }
}
