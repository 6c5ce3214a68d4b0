//! The health of the whole program, read from the roster and the board on request.

mod actor;
mod heard;

mod stuck;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::observation::board::{Board, PartKind, PartState, Phase, STORE};
use crate::observation::instruments::Instruments;
use crate::observation::past::Past;
use crate::observation::samples::Samples;
use crate::observation::timeline::{self, Texts};
use crate::runtime::handle::{HUNG, LifeState, Stats};
use crate::runtime::roster::Roster;
use crate::services::basics::Basics;
use crate::services::own_ranges::OwnRanges;
use crate::services::running::Running;
use crate::tree::{ActorKind, ROOT, TREE};
use domain::ids;
use domain::ids::{Person, Timestamp};
use domain::model::Row;
use domain::tool::server::Tooling;
use ports::samples::Figures;
use ports::turn_detail::{TextAccess, TurnDetail};
use ports::vitals::{ActorDetail, Configuration, Part, Readiness, Status, TreeNode, Turns, UnwellActor};
use ports::{Store, StoreStatus, TurnLog, Vitals};
use telemetry::tally::Tally;

/// The vital signs of one tree.
pub struct TreeVitals {
    /// Configuration, store and time.
    pub basics: Basics,
    /// The portions of the bot's work that this process holds.
    pub ranges: OwnRanges,
    /// The records that actors write.
    pub instruments: Instruments,
    /// The samples of the last minutes.
    pub samples: Arc<Samples>,
    /// The turns and samples that outlive the process.
    pub past: Arc<Past>,
    /// The counts of this process.
    pub tally: Arc<Tally>,
    /// The last lines of the log.
    pub logged: Arc<dyn TurnLog>,
}

impl Vitals for TreeVitals {
    fn alive(&self) -> bool {
        self.instruments.roster.find(ROOT).is_some_and(|stats| stats.life().state == LifeState::Running)
    }

    fn stuck(&self) -> Option<String> {
        stuck::stuck(&self.instruments.roster)
    }

    fn lag(&self) -> Duration {
        self.instruments.timeline.lag()
    }

    fn readiness(&self) -> Readiness {
        let running = self.basics.live.now();
        let (status, parts) = condition(&self.instruments.board, &*self.basics.store, &running);
        let status = if status != Status::Draining && !self.alive() { Status::Down } else { status };
        let parts = parts.into_iter().map(|part| self.part(part)).collect();
        let configuration = Configuration { version: running.version.clone(), rejected: self.basics.live.rejected() };
        let actors = unwell(&self.instruments.roster);
        let notes = running.notes.iter().cloned().chain(self.basics.store.keeping().loses).collect();
        let (version, range) = (env!("CARGO_PKG_VERSION").to_owned(), self.ranges.now().range_name());
        Readiness { status, version, range, configuration, parts, actors, notes }
    }

    fn tree(&self, of_a_kind: usize) -> TreeNode {
        let mut tree = tree_of(&self.instruments.roster.all(), of_a_kind);
        heard::note(&mut tree, &self.instruments.board.parts(), self.basics.clock.now());
        tree
    }

    fn actor(&self, path: &str) -> Option<ActorDetail> {
        self.instruments.roster.find(path).map(|stats| actor::detail(&stats, self.basics.clock.now()))
    }

    fn turns(&self) -> Turns {
        let now = self.basics.clock.now();
        let mut turns = self.instruments.timeline.turns(now);
        turns.newest.extend(self.past.turns(now));
        turns.newest.truncate(timeline::TURNS);
        turns
    }

    fn turn(&self, number: u64) -> Option<TurnDetail> {
        let Texts { turn, access, calls } = self.instruments.timeline.texts(number)?;
        let log = if access == TextAccess::Forgotten { Vec::new() } else { self.logged.of(&turn.to_string()) };
        Some(TurnDetail { texts: access, calls, log })
    }

    fn forget(&self, member: &Person) -> BoxFuture<'static, ()> {
        self.instruments.timeline.forget(member);
        self.logged.forget();
        let (past, member) = (Arc::clone(&self.past), member.to_string());
        Box::pin(async move { past.forget(&member).await })
    }

    fn sample(&self) {
        self.instruments.timeline.age_texts();
        self.logged.forget_before(Timestamp(self.basics.clock.now().0.saturating_sub(ids::millis(timeline::KEPT))));
        let figures = Figures { counters: self.tally.counters(), ..self.instruments.timeline.figures() };
        let now = self.basics.clock.now();
        self.samples.take(&self.instruments.roster, figures, now);
        self.past.keep(self.instruments.timeline.ended_anew(now), (now.0, figures));
    }

    fn recall(&self) -> Option<BoxFuture<'static, ()>> {
        let (past, samples, clock) =
            (Arc::clone(&self.past), Arc::clone(&self.samples), Arc::clone(&self.basics.clock));
        Some(Box::pin(async move {
            let earlier = past.recall(clock.now()).await;
            samples.put_before(earlier.into_iter().map(|(at, figures)| (Timestamp(at), figures)), clock.now());
        }))
    }

    fn stops(&self) {
        let now = self.basics.clock.now();
        self.past.stops(self.instruments.timeline.ended_anew(now), now);
    }

    fn samples(&self, after: Timestamp) -> ports::samples::Samples {
        ports::samples::Samples { breaks: self.past.breaks(), ..self.samples.after(after) }
    }

    fn tooling(&self) -> Tooling {
        self.instruments.tooling.read().clone()
    }

    fn memory(&self) -> Option<u64> {
        // The kernel holds this file in memory, so the read does not block.
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
        kilobytes.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses can hold any characters; user time and system time are fields 14 and 15.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some(Duration::from_millis((user + system) * MS_PER_TICK))
    }

    fn uptime(&self) -> Duration {
        self.instruments.roster.find(ROOT).map_or(Duration::ZERO, |root| root.life().since.elapsed())
    }
}

/// The maximum duration of a restart before readiness names the actor.
const RESTARTS_WITHIN: Duration = Duration::from_secs(3);
/// The maximum number of actors that readiness names.
const UNWELL_MAX: usize = 20;

/// Returns the actors that do not work now.
fn unwell(roster: &Roster) -> Vec<UnwellActor> {
    let state_of = |stats: &Stats| {
        let life = stats.life();
        let (state, since) = match (stats.handling(), life.state) {
            (Some(handling), LifeState::Running) if stats.is_hung() => (HUNG, handling.since),
            (_, LifeState::Restarting) if life.since.elapsed() > RESTARTS_WITHIN => (life.state.as_str(), life.since),
            _ => return None,
        };
        Some(UnwellActor {
            actor: stats.label.to_string(),
            state: state.to_owned(),
            for_s: since.elapsed().as_secs(),
            last_error: life.last_error,
        })
    };
    roster.find_map_all(state_of, UNWELL_MAX)
}

/// Linux reports process times in hundredths of a second on all current machines.
const MS_PER_TICK: u64 = 10;

/// The current state of a part of the program.
pub struct PartNow {
    kind: PartKind,
    name: String,
    state: PartState,
    /// True if the bot works without it: its failure does not change the overall status.
    optional: bool,
}

/// Returns the states of the parts and the overall status, as far as it does not depend on the tree. Only three causes
/// degrade it: the store, a door or one of its connections, and a door whose permitted model rows are all down.
#[must_use]
pub fn condition(board: &Board, store: &dyn Store, running: &Running) -> (Status, Vec<PartNow>) {
    match store.status() {
        // Store settings that break durability promises count as a failed store: it answers, but its data is not
        // reliable.
        StoreStatus::Ready => match store.keeping().breaks {
            Some(reason) => board.down(PartKind::Store, STORE, &reason),
            None => board.up(PartKind::Store, STORE),
        },
        StoreStatus::Degraded(reason) => board.down(PartKind::Store, STORE, &reason),
    }
    let rows = running.models.rows();
    for row in rows {
        // A row added by a reload counts as working until a call fails.
        board.meet(PartKind::Model, &row.key);
    }
    let mut parts = board.parts();
    // A row removed by a reload no longer counts.
    parts.retain(|(kind, name, _)| *kind != PartKind::Model || rows.iter().any(|row| row.key == *name));
    let shards: Vec<&PartState> =
        parts.iter().filter(|(kind, ..)| kind.is_connection()).map(|(.., state)| state).collect();
    let door_is_open = shards.iter().any(|shard| shard.up);
    let never_open = shards.iter().all(|shard| !shard.began);
    let needed = needed_rows(&parts, running);
    let now = |(kind, name, state): (PartKind, String, PartState)| {
        let optional = match kind {
            PartKind::Door
            | PartKind::Posts
            | PartKind::Requests
            | PartKind::Shard
            | PartKind::Socket
            | PartKind::Store
            | PartKind::Custody => false,
            PartKind::Model => !needed.contains(&name),
            PartKind::McpServer | PartKind::Place | PartKind::Held => true,
        };
        PartNow { kind, name, state, optional }
    };
    let parts: Vec<PartNow> = parts.into_iter().map(now).collect();
    let status = match board.phase() {
        Phase::Draining => Status::Draining,
        // Another process acts; traffic belongs to that one.
        Phase::Serving if parts.iter().any(|part| part.kind == PartKind::Custody) => Status::Down,
        Phase::Serving if !door_is_open && never_open => Status::Starting,
        Phase::Serving if !door_is_open => Status::Down,
        Phase::Serving if parts.iter().all(|part| part.state.up || part.optional) => Status::Ready,
        Phase::Serving => Status::Degraded,
    };
    (status, parts)
}

/// The model rows whose failure leaves a door without a model: each row of a door whose other rows are all down.
fn needed_rows(parts: &[(PartKind, String, PartState)], running: &Running) -> HashSet<String> {
    let down = |key: &str| parts.iter().any(|(kind, name, state)| *kind == PartKind::Model && name == key && !state.up);
    let mut needed = HashSet::new();
    for rules in running.doors.values() {
        let policy = &rules.triage.policy;
        let rows: Vec<&Row> = running.candidates(policy.model.as_deref(), &policy.among).collect();
        let only = |key: &str| rows.iter().all(|other| other.key == key || down(&other.key));
        needed.extend(rows.iter().filter(|row| only(&row.key)).map(|row| row.key.clone()));
    }
    needed
}

impl TreeVitals {
    fn part(&self, part: PartNow) -> Part {
        let PartNow { kind, name, state, optional } = part;
        let now = self.basics.clock.now().0;
        let at = |since: Instant| Timestamp(now.saturating_sub(ids::millis(since.elapsed())));
        Part {
            kind: kind.as_str().to_owned(),
            name,
            status: if state.up { Status::Ready } else { Status::Down },
            since: at(state.since),
            restarts: state.restarts,
            last_error: state.last_error,
            last_event: state.heard.map(at),
            optional,
        }
    }
}

/// The tree of these actors. `of_a_kind` is the maximum number of rows of one kind below one supervisor.
fn tree_of(actors: &[Arc<Stats>], of_a_kind: usize) -> TreeNode {
    let mut children: HashMap<&str, Vec<&Stats>> = HashMap::new();
    for stats in actors {
        let above = stats.path.rsplit_once('/').map_or("", |(above, _)| above);
        children.entry(above).or_default().push(stats);
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|stats| (place_in_tree(stats.kind), &stats.path));
    }
    let root = children.get("").and_then(|roots| roots.first().copied());
    node(ROOT, root, &children, of_a_kind)
}

/// An actor with all its descendants. Each actor is visited once.
fn node(path: &str, stats: Option<&Stats>, children: &HashMap<&str, Vec<&Stats>>, of_a_kind: usize) -> TreeNode {
    let mut below = Vec::new();
    // A supervisor has only a few kinds of children.
    let mut kinds: Vec<(ActorKind, usize, Option<TreeNode>)> = Vec::new();
    for child in children.get(path).into_iter().flatten() {
        let at = kinds.iter().position(|(kind, ..)| *kind == child.kind).unwrap_or_else(|| {
            kinds.push((child.kind, 0, None));
            kinds.len() - 1
        });
        let (_, shown, rest) = &mut kinds[at];
        if *shown < of_a_kind || children.contains_key(&*child.path) {
            *shown += 1;
            below.push(node(&child.path, Some(child), children, of_a_kind));
        } else {
            add_to(rest, path, child);
        }
    }
    below.extend(kinds.into_iter().filter_map(|(.., rest)| rest));
    TreeNode { children: below, ..row(path, stats) }
}

/// Adds an actor to a shared row. The row shows the last actor that is not running, if there is one.
fn add_to(rest: &mut Option<TreeNode>, above: &str, stats: &Stats) {
    let rest = rest.get_or_insert_with(|| {
        let name = stats.path.rsplit('/').next().unwrap_or_default();
        let kind = name.split(':').next().unwrap_or_default();
        TreeNode {
            state: LifeState::Running.as_str().to_owned(),
            many: Some(0),
            ..row(&format!("{above}/{kind}:*"), None)
        }
    });
    let life = stats.life();
    rest.many = rest.many.map(|many| many + 1);
    rest.restarts += stats.restarts.load(Ordering::Relaxed);
    rest.mailbox += stats.depth.load(Ordering::Relaxed) as u64;
    rest.refused += stats.refused.load(Ordering::Relaxed);
    rest.handled += stats.handled.load(Ordering::Relaxed);
    if life.state == LifeState::Running && !stats.is_hung() {
        rest.uptime_s = rest.uptime_s.max(life.since.elapsed().as_secs());
    } else {
        state_of(stats, life.state).clone_into(&mut rest.state);
        rest.last_error = life.last_error;
    }
}

fn state_of(stats: &Stats, state: LifeState) -> &'static str {
    if stats.is_hung() { HUNG } else { state.as_str() }
}

/// An actor without its descendants.
fn row(path: &str, stats: Option<&Stats>) -> TreeNode {
    let life = stats.map(Stats::life);
    let state = life.as_ref().map_or(LifeState::Starting, |life| life.state);
    let running = life.as_ref().filter(|life| life.state == LifeState::Running);
    let count = |of: fn(&Stats) -> u64| stats.map_or(0, of);
    TreeNode {
        name: path.rsplit('/').next().unwrap_or(path).to_owned(),
        path: path.to_owned(),
        state: stats.map_or(state.as_str(), |stats| state_of(stats, state)).to_owned(),
        restarts: count(|stats| stats.restarts.load(Ordering::Relaxed)),
        mailbox: count(|stats| stats.depth.load(Ordering::Relaxed) as u64),
        refused: count(|stats| stats.refused.load(Ordering::Relaxed)),
        handled: count(|stats| stats.handled.load(Ordering::Relaxed)),
        uptime_s: running.map_or(0, |life| life.since.elapsed().as_secs()),
        backoff_ms: life.as_ref().and_then(|life| life.backoff).map(ids::millis),
        outage_ms: life.as_ref().and_then(|life| life.outage).map(ids::millis),
        last_error: life.and_then(|life| life.last_error),
        last_event: None,
        many: None,
        children: Vec::new(),
    }
}

/// The start order of the top level; lower levels are ordered by path.
fn place_in_tree(kind: ActorKind) -> usize {
    TREE.children.iter().position(|row| row.kind == kind).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
