//! How the whole program is, read from the roster and the board for whoever asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::board::{Board, PartKind, PartState, Phase, STORE};
use super::handle::{LifeState, Stats};
use super::roster::Roster;
use super::running::{Live, Running};
use super::timeline::Timeline;
use super::tree::TREE;
use crate::domain::ids;
use crate::domain::ids::Timestamp;
use crate::ports::vitals::{Configuration, Part, Readiness, Status, TreeNode, Turns};
use crate::ports::{Clock, Store, StoreStatus, Vitals};

/// The vital signs of one tree.
pub struct TreeVitals {
    /// Who lives.
    pub roster: Arc<Roster>,
    /// How the parts are that are not actors.
    pub board: Arc<Board>,
    /// When the last turns did what.
    pub timeline: Arc<Timeline>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// What runs.
    pub live: Live,
}

impl Vitals for TreeVitals {
    fn alive(&self) -> bool {
        self.roster.find(TREE.name).is_some_and(|stats| stats.life().state == LifeState::Running)
    }

    fn readiness(&self) -> Readiness {
        let running = self.live.now();
        let (status, parts) = condition(&self.board, &*self.store, &running);
        let status = if status != Status::Draining && !self.alive() { Status::Down } else { status };
        let parts = parts.into_iter().map(|(kind, name, state)| self.part(kind, name, state)).collect();
        let configuration = Configuration { version: running.version.clone(), rejected: self.live.rejected() };
        Readiness { status, version: env!("CARGO_PKG_VERSION").to_owned(), configuration, parts }
    }

    fn tree(&self) -> TreeNode {
        tree_of(TREE.name, &self.roster.all())
    }

    fn turns(&self) -> Turns {
        self.timeline.turns(self.clock.now())
    }

    fn memory(&self) -> Option<u64> {
        // Held in memory by the kernel: reading it waits for nothing.
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
        kilobytes.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may hold anything; user and system time are the 14th and 15th field of all.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some(Duration::from_millis((user + system) * MS_PER_TICK))
    }

    fn uptime(&self) -> Duration {
        self.roster.find(TREE.name).map_or(Duration::ZERO, |root| root.life().since.elapsed())
    }
}

/// Linux counts the time of processes in hundredths of a second, on every machine of today.
const MS_PER_TICK: u64 = 10;

/// How the parts are, and what follows for the whole, as far as that does not depend on the tree.
#[must_use]
pub fn condition(board: &Board, store: &dyn Store, running: &Running) -> (Status, Vec<(PartKind, String, PartState)>) {
    match store.status() {
        StoreStatus::Ready => board.up(PartKind::Store, STORE),
        StoreStatus::Degraded(reason) => board.down(PartKind::Store, STORE, &reason),
    }
    let rows = running.models.rows();
    for row in rows {
        // A row that a reload brought is well until somebody who asked it says otherwise.
        board.meet(PartKind::Model, &row.key);
    }
    let mut parts = board.parts();
    // A row that a reload took away is nobody's trouble any more.
    parts.retain(|(kind, name, _)| *kind != PartKind::Model || rows.iter().any(|row| row.key == *name));
    let shards: Vec<&PartState> =
        parts.iter().filter(|(kind, ..)| *kind == PartKind::Shard).map(|(.., state)| state).collect();
    let door_is_open = shards.iter().any(|shard| shard.up);
    let never_open = shards.iter().all(|shard| !shard.up && shard.restarts == 0);
    let status = match board.phase() {
        Phase::Draining => Status::Draining,
        Phase::Serving if !door_is_open && never_open => Status::Starting,
        Phase::Serving if !door_is_open => Status::Down,
        Phase::Serving if parts.iter().all(|(.., state)| state.up) => Status::Ready,
        Phase::Serving => Status::Degraded,
    };
    (status, parts)
}

impl TreeVitals {
    fn part(&self, kind: PartKind, name: String, state: PartState) -> Part {
        let ago = ids::millis(state.since.elapsed());
        Part {
            kind: kind.as_str().to_owned(),
            name,
            status: if state.up { Status::Ready } else { Status::Down },
            since: Timestamp(self.clock.now().0.saturating_sub(ago)),
            restarts: state.restarts,
            last_error: state.last_error,
        }
    }
}

/// Draws the tree below a path in time linear in the number of actors, but for the sorting of siblings.
fn tree_of(path: &str, actors: &[Arc<Stats>]) -> TreeNode {
    let mut family = Family { at: HashMap::with_capacity(actors.len()), below: HashMap::new() };
    for stats in actors {
        family.at.insert(&stats.path, stats);
        if let Some((parent, _)) = stats.path.rsplit_once('/') {
            family.below.entry(parent).or_default().push(stats);
        }
    }
    node(path, &family)
}

/// Who lives where.
struct Family<'a> {
    at: HashMap<&'a str, &'a Arc<Stats>>,
    below: HashMap<&'a str, Vec<&'a Arc<Stats>>>,
}

fn node(path: &str, family: &Family) -> TreeNode {
    let mut children: Vec<&Arc<Stats>> = family.below.get(path).cloned().unwrap_or_default();
    children.sort_by_cached_key(|stats| (place_in_tree(&stats.path), Arc::clone(&stats.path)));
    let children = children.into_iter().map(|stats| node(&stats.path, family)).collect();
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    let Some(stats) = family.at.get(path) else {
        let state = LifeState::Starting.as_str().to_owned();
        let path = path.to_owned();
        return TreeNode {
            name,
            path,
            state,
            restarts: 0,
            mailbox: 0,
            handled: 0,
            uptime_s: 0,
            last_error: None,
            children,
        };
    };
    let life = stats.life();
    let uptime = if life.state == LifeState::Running { Instant::now().duration_since(life.since).as_secs() } else { 0 };
    TreeNode {
        name,
        path: path.to_owned(),
        state: life.state.as_str().to_owned(),
        restarts: stats.restarts.load(Ordering::Relaxed),
        mailbox: stats.depth.load(Ordering::Relaxed) as u64,
        handled: stats.handled.load(Ordering::Relaxed),
        uptime_s: uptime,
        last_error: life.last_error,
        children,
    }
}

/// The start order of the top level; children of templates all come at the same place.
fn place_in_tree(path: &str) -> usize {
    let name = path.rsplit('/').next().unwrap_or(path);
    TREE.children.iter().position(|row| row.name == name).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::handle::Handle;

    fn actors(many: usize) -> Vec<Arc<Stats>> {
        let branch = ["staffai", "staffai/conversations"].map(str::to_owned).into_iter();
        let leaves = (0..many).map(|number| format!("staffai/conversations/conversation:discord:{number}"));
        branch.chain(leaves).map(|path| Arc::clone(Handle::<()>::new(&path).stats())).collect()
    }

    #[tokio::test]
    async fn the_tree_of_20_000_actors_takes_as_long_for_each_as_that_of_a_few() {
        let best = |many: usize| {
            let actors = actors(many);
            let once = || {
                let begun = Instant::now();
                let tree = tree_of(TREE.name, &actors);
                assert_eq!((tree.children.len(), tree.children[0].children.len()), (1, many));
                begun.elapsed()
            };
            (0..3).map(|_| once()).min().unwrap_or_default()
        };
        let (few, many) = (best(1_000), best(20_000));
        // Twenty times as many may take twenty times as long, and somewhat more for sorting; looking at all for each takes 400 times.
        assert!(many < few * 100, "{few:?} for 1,000, {many:?} for 20,000");
    }
}
