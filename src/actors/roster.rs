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

    /// Forgets, and tells, who lived below an actor that ended.
    pub(super) fn prune_below(&self, path: &str) -> Vec<Arc<Stats>> {
        let prefix = format!("{path}/");
        let mut actors = self.actors.lock();
        let below: Vec<Arc<Stats>> = actors.values().filter(|stats| stats.path.starts_with(&prefix)).cloned().collect();
        actors.retain(|known, _| !known.starts_with(&prefix));
        below
    }
}
