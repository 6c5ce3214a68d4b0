//! The registry of running actors: the statistics of every actor of one tree, by path, for health lines, the tree page
//! and metrics.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::runtime::handle::Stats;

/// The number of actors read under one lock, during which no actor can be added.
const SLICE: usize = 1_000;

/// The running actors of one tree. Supervisors add and remove their children; all other users read.
#[derive(Default)]
pub struct Roster {
    actors: Mutex<BTreeMap<Arc<str>, Arc<Stats>>>,
}

impl Roster {
    /// Returns all actors, by path.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Stats>> {
        self.actors.lock().values().cloned().collect()
    }

    /// Returns the actor at this path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<Arc<Stats>> {
        self.actors.lock().get(path).cloned()
    }

    /// Returns the number of running actors.
    pub(crate) fn many(&self) -> usize {
        self.actors.lock().len()
    }

    /// Returns the results of `of` for the actors, by path; at most `most`.
    pub(crate) fn find_map_all<T>(&self, of: impl Fn(&Stats) -> Option<T>, most: usize) -> Vec<T> {
        self.actors.lock().values().filter_map(|stats| of(stats)).take(most).collect()
    }

    /// Calls `look` for each actor, by path, without collecting them. Actors may be added between two slices.
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

    /// Removes and returns the descendants of an ended actor.
    pub(crate) fn prune_below(&self, path: &str) -> Vec<Arc<Stats>> {
        let prefix = format!("{path}/");
        let mut actors = self.actors.lock();
        // Descendants are adjacent in the order of paths, so no other actor is visited.
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
