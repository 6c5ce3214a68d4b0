//! The last ten minutes of the tree, sampled at equal intervals: a ring buffer of fixed size, read by the pages.
//!
//! A sample reads the statistics of each actor once. Its size does not grow with the number of actors: an actor has its
//! own row while few actors of its kind exist; all others of a kind share one row. Conversations always share one row,
//! because their number is unbounded.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use crate::runtime::handle::{HUNG, LifeState, Stats};
use crate::runtime::roster::Roster;
use crate::tree::{ActorKind, Scope};
use domain::ids::{self, Timestamp};
use domain::latencies::Latencies;
use ports::samples::{self, Figures, Sample, SampleRow};

/// The interval between two samples.
pub const EVERY: Duration = Duration::from_secs(2);
/// The maximum number of samples: ten minutes.
pub const KEPT: usize = 300;
/// The maximum number of samples in one response; clients request further samples separately.
const TOLD: usize = 60;
/// The maximum number of actors of one kind with their own rows, first by path.
const NAMED_OF_A_KIND: usize = 16;
/// The maximum number of actors of all kinds with their own rows.
const NAMED: usize = 96;

/// The ring of samples. [`super::past`] persists its totals; its rows are lost with the process.
#[derive(Default)]
pub struct Samples {
    ring: Mutex<VecDeque<Arc<Taken>>>,
}

/// One stored sample.
struct Taken {
    at: Timestamp,
    figures: Figures,
    rows: Box<[Kept]>,
}

/// One stored row.
struct Kept {
    path: Arc<str>,
    state: &'static str,
    count: u32,
    mailbox: u32,
    restarts: u32,
    p50_us: u32,
    p99_us: u32,
    handled: u64,
}

/// One measured row.
struct Measured {
    path: Arc<str>,
    state: &'static str,
    count: u64,
    mailbox: u64,
    restarts: u64,
    handled: u64,
    latencies: Option<Box<Latencies>>,
}

/// The rows of one kind so far.
#[derive(Default)]
struct Family {
    named: usize,
    /// The index of the shared row of actors without their own row.
    others: Option<usize>,
}

impl Samples {
    /// Takes a sample, and drops the oldest one if there are more than [`KEPT`]. Resets the measured handler times.
    pub fn take(&self, roster: &Roster, figures: Figures, at: Timestamp) {
        let (mut rows, mut families, mut named) = (Vec::new(), HashMap::new(), 0);
        roster.each(|stats| measure(stats, (&mut rows, &mut families, &mut named)));
        rows.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut ring = self.ring.lock();
        let last = ring.back().cloned();
        // Timestamps stay increasing if the wall clock is set back, so that clients that request newer samples get
        // them.
        let at = last.as_ref().map_or(at, |last| Timestamp(at.0.max(last.at.0 + 1)));
        let before = last.as_ref().map_or(&[][..], |taken| &taken.rows);
        // A path shares its text with the previous sample, so it uses no further memory.
        let known = |path: Arc<str>| {
            let found = before.binary_search_by(|kept| kept.path.cmp(&path)).ok();
            found.map_or(path, |index| Arc::clone(&before[index].path))
        };
        let rows = rows.into_iter().map(|row| row.kept(known)).collect();
        if ring.len() >= KEPT {
            ring.pop_front();
        }
        ring.push_back(Arc::new(Taken { at, figures, rows }));
    }

    /// Inserts samples of an earlier process before all others, as long as the ring has room and they are within its
    /// time range.
    pub fn put_before(&self, earlier: impl DoubleEndedIterator<Item = (Timestamp, Figures)>, now: Timestamp) {
        let mut ring = self.ring.lock();
        let reach = ids::millis(EVERY) * KEPT as u64;
        for (at, figures) in earlier.rev() {
            let newer = ring.front().is_none_or(|first| at < first.at);
            if ring.len() >= KEPT || at.0 + reach < now.0 {
                return;
            }
            if newer && at <= now {
                ring.push_front(Arc::new(Taken { at, figures, rows: Box::default() }));
            }
        }
    }

    /// Returns the samples after this moment, starting with the oldest, up to the response limit.
    #[must_use]
    pub fn after(&self, moment: Timestamp) -> samples::Samples {
        let (newer, more) = {
            let ring = self.ring.lock();
            let from = ring.partition_point(|taken| taken.at <= moment);
            let newer: Vec<Arc<Taken>> = ring.iter().skip(from).take(TOLD).cloned().collect();
            (newer, ring.len() > from + TOLD)
        };
        let (mut indices, mut actors) = (HashMap::new(), Vec::new());
        let mut index_of = |path: &Arc<str>| {
            *indices.entry(Arc::clone(path)).or_insert_with(|| {
                actors.push(path.to_string());
                actors.len() - 1
            })
        };
        let shown = |taken: &Arc<Taken>| Sample {
            at: taken.at,
            figures: taken.figures,
            rows: taken.rows.iter().map(|row| row.shown(index_of(&row.path))).collect(),
        };
        let samples = newer.iter().map(shown).collect();
        samples::Samples { every_ms: ids::millis(EVERY), kept: KEPT, more, actors, samples, breaks: Vec::new() }
    }
}

/// Adds one actor to its row.
fn measure(stats: &Stats, (rows, families, named): (&mut Vec<Measured>, &mut HashMap<ActorKind, Family>, &mut usize)) {
    let family = families.entry(stats.kind).or_default();
    let single = !matches!(stats.scope, Scope::Place(_) | Scope::Community(_))
        && family.named < NAMED_OF_A_KIND
        && *named < NAMED;
    let index = match family.others {
        Some(index) if !single => index,
        _ => {
            let path = if single { Arc::clone(&stats.path) } else { others(&stats.path) };
            rows.push(Measured::new(path));
            if single {
                family.named += 1;
                *named += 1;
            } else {
                family.others = Some(rows.len() - 1);
            }
            rows.len() - 1
        }
    };
    let row = &mut rows[index];
    let sampled = stats.sample();
    let state = if sampled.hung { HUNG } else { sampled.state.as_str() };
    // If several actors share the row, it shows the state of one that is not running.
    if row.count == 0 || (row.state == LifeState::Running.as_str() && state != row.state) {
        row.state = state;
    }
    row.count += 1;
    // The ops actor is always busy with its own sample.
    row.mailbox += sampled.waiting as u64;
    row.restarts += stats.restarts.load(Ordering::Relaxed);
    row.handled += stats.handled.load(Ordering::Relaxed);
    if let Some(more) = sampled.latencies {
        match &mut row.latencies {
            Some(latencies) => latencies.add(&more),
            none => *none = Some(more),
        }
    }
}

/// The path of the shared row of a kind: `above/kind:*`.
fn others(path: &str) -> Arc<str> {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let kind = path[name..].find(':').map_or(path.len(), |colon| name + colon);
    format!("{}:*", &path[..kind]).into()
}

impl Measured {
    fn new(path: Arc<str>) -> Self {
        let state = LifeState::Running.as_str();
        Self { path, state, count: 0, mailbox: 0, restarts: 0, handled: 0, latencies: None }
    }

    fn kept(self, known: impl Fn(Arc<str>) -> Arc<str>) -> Kept {
        let percentile = |part| self.latencies.as_ref().and_then(|latencies| latencies.percentile(part));
        let (p50, p99) = (percentile(50), percentile(99));
        Kept {
            state: self.state,
            count: short(self.count),
            mailbox: short(self.mailbox),
            restarts: short(self.restarts),
            p50_us: short(p50.unwrap_or(0)),
            p99_us: short(p99.unwrap_or(0)),
            handled: self.handled,
            path: known(self.path),
        }
    }
}

impl Kept {
    fn shown(&self, actor: usize) -> SampleRow {
        // Zero microseconds means that no handler ran.
        let some = |micros: u32| (micros > 0).then_some(u64::from(micros));
        SampleRow {
            actor,
            state: self.state,
            count: self.count.into(),
            mailbox: self.mailbox.into(),
            restarts: self.restarts.into(),
            handled: self.handled,
            p50_us: some(self.p50_us),
            p99_us: some(self.p99_us),
        }
    }
}

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
