//! Who lives: the counts of every actor of one tree, by path, for health lines, the tree page and metrics.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::runtime::handle::Stats;

/// How many actors are looked at while nobody can enter.
const SLICE: usize = 1_000;

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

    /// The actor at this path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<Arc<Stats>> {
        self.actors.lock().get(path).cloned()
    }

    /// How many actors live.
    pub(crate) fn many(&self) -> usize {
        self.actors.lock().len()
    }

    /// What this makes of each actor, by path; at most so many.
    pub(crate) fn find_map_all<T>(&self, of: impl Fn(&Stats) -> Option<T>, most: usize) -> Vec<T> {
        self.actors.lock().values().filter_map(|stats| of(stats)).take(most).collect()
    }

    /// Looks at each actor, by path, without keeping any. Between two slices of them others may enter.
    pub(crate) fn each(&self, mut look: impl FnMut(&Stats)) {
        let mut last: Option<Arc<str>> = None;
        loop {
            let actors = self.actors.lock();
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut slice = actors.range::<str, _>((from, Bound::Unbounded)).take(SLICE).peekable();
            if slice.peek().is_none() {
                return;
            }
            let mut next = None;
            for (path, stats) in slice {
                look(stats);
                next = Some(path);
            }
            let next = next.cloned();
            drop(actors);
            last = next;
        }
    }

    pub(crate) fn enter(&self, stats: Arc<Stats>) {
        self.actors.lock().insert(Arc::clone(&stats.path), stats);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.actors.lock().remove(path);
    }

    /// Forgets, and tells, who lived below an actor that ended.
    pub(crate) fn prune_below(&self, path: &str) -> Vec<Arc<Stats>> {
        let prefix = format!("{path}/");
        let mut actors = self.actors.lock();
        // They stand side by side in the order of paths; whoever else lives is not looked at.
        let behind = actors
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(&prefix));
        let below: Vec<Arc<Stats>> = behind.map(|(_, stats)| Arc::clone(stats)).collect();
        for stats in &below {
            actors.remove(&stats.path);
        }
        below
    }
}
