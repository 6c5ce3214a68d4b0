//! ops: the health output for operators. Starts first, stops last.
//!
//! Supervised by: staffai (permanent).
//! Receives: its own timers, and the end of its listener.
//! Sends: nothing; it reads the roster.
//! A restart loses: nothing; the listener binds again.

mod gauges;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::listening::{LISTEN_AGAIN, Serving};
use crate::observation::samples;
use crate::runtime::blocking::blocking_caught;
use crate::runtime::handle::{LifeState, Stats};
use crate::runtime::roster::Roster;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use ports::{Listener, Vitals};
use telemetry::events::{ACTOR_HEALTH, OPS_UNREACHABLE, TREE_HEALTH};

/// The interval of the health line of the tree, and of a detailed line for each kind of actor.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// The interval at which mailboxes and states are read and the gauges are set.
const MEASURE_EVERY: Duration = Duration::from_secs(5);

/// One line about all actors of a kind. Each level needs its own call site, because the level is part of a tracing call
/// site.
macro_rules! health_line {
    ($level:ident, $kind:expr, $sum:expr) => {
        tracing::$level!(
            event = ACTOR_HEALTH,
            actor = $kind,
            state = $sum.state(),
            count = $sum.count,
            restarts = $sum.restarts,
            mailbox = $sum.mailbox,
            refused = $sum.refused,
            handled = $sum.handled,
            last_error = $sum.last_error.as_deref(),
            "actor health"
        )
    };
}

/// Events from its timers and its listener.
pub enum OpsEvent {
    /// The time to log the health of the actors.
    Health,
    /// The time to read mailboxes and states, and to set the gauges.
    Measure,
    /// The time to take a sample.
    Sample,
    /// A sample was taken in a task.
    Sampled,
    /// The time to listen.
    Listen,
    /// The listener ended.
    ListenerEnded(Result<(), String>),
}

/// The maximum number of actors sampled inline, which takes well under a millisecond; larger samples run on a blocking
/// thread.
const SAMPLED_AT_ONCE: usize = 2_000;

/// The behaviour and its arguments.
pub struct Ops {
    /// Serves the pages.
    pub listener: Arc<dyn Listener>,
    /// The living actors.
    pub roster: Arc<Roster>,
    /// The health of the whole program.
    pub vitals: Arc<dyn Vitals>,
}

/// The state of ops.
pub struct OpsState {
    /// The state and restarts of each kind of actor at the last check.
    seen: BTreeMap<String, (&'static str, u64)>,
    /// The parts that have a gauge.
    parts: gauges::Shown,
    serving: Serving,
}

impl Actor for Ops {
    type Msg = Infallible;
    type Event = OpsEvent;
    type State = OpsState;

    fn start(&self, ctx: &mut ActorContext<Ops>) -> Result<OpsState, Crash> {
        let state = OpsState { seen: BTreeMap::new(), parts: gauges::Shown::new(), serving: Serving::new() };
        state.serving.begin(ctx, &self.listener, OpsEvent::ListenerEnded);
        ctx.after(HEALTH_EVERY, OpsEvent::Health);
        ctx.after(MEASURE_EVERY, OpsEvent::Measure);
        ctx.after(samples::EVERY, OpsEvent::Sample);
        if let Some(recall) = self.vitals.recall() {
            ctx.background(recall);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut OpsState,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(&self, ctx: &mut ActorContext<Self>, event: OpsEvent, state: &mut OpsState) -> Result<(), Crash> {
        match event {
            OpsEvent::Health => {
                let sums = sums(&self.roster.all());
                for (kind, sum) in &sums {
                    health_line!(debug, kind, sum);
                }
                tell_tree(&sums);
                ctx.after(HEALTH_EVERY, OpsEvent::Health);
            }
            OpsEvent::Measure => {
                let sums = sums(&self.roster.all());
                tell_changes(&sums, &mut state.seen);
                gauges::set(&sums, &*self.vitals, &mut state.parts);
                ctx.after(MEASURE_EVERY, OpsEvent::Measure);
            }
            OpsEvent::Sample => {
                if self.roster.many() <= SAMPLED_AT_ONCE {
                    self.vitals.sample();
                    ctx.after(samples::EVERY, OpsEvent::Sample);
                } else {
                    let vitals = Arc::clone(&self.vitals);
                    let sampled = async move {
                        drop(blocking_caught(move || vitals.sample()).await);
                        OpsEvent::Sampled
                    };
                    ctx.task(sampled, |_| OpsEvent::Sampled);
                }
            }
            OpsEvent::Sampled => ctx.after(samples::EVERY, OpsEvent::Sample),
            OpsEvent::Listen => state.serving.begin(ctx, &self.listener, OpsEvent::ListenerEnded),
            OpsEvent::ListenerEnded(Ok(())) => {}
            OpsEvent::ListenerEnded(Err(reason)) => {
                tracing::error!(event = OPS_UNREACHABLE, reason, "health and pages cannot be served; trying again");
                ctx.after(LISTEN_AGAIN, OpsEvent::Listen);
            }
        }
        Ok(())
    }
}

/// The totals of all actors of one kind: single conversations are never named.
#[derive(Default)]
struct Sum {
    count: u64,
    running: u64,
    restarts: u64,
    handled: u64,
    mailbox: u64,
    /// The number of messages refused because of a full mailbox.
    refused: u64,
    /// The number of messages in the deepest mailbox.
    deepest: u64,
    last_error: Option<String>,
}

impl Sum {
    const fn state(&self) -> &'static str {
        if self.running == self.count { "running" } else { "restarting" }
    }
}

/// Logs a line for each kind whose state changed or that was restarted since the last check.
fn tell_changes(sums: &BTreeMap<String, Sum>, seen: &mut BTreeMap<String, (&'static str, u64)>) {
    for (kind, sum) in sums {
        let now = (sum.state(), sum.restarts);
        // A kind that was not seen before counts as running unless its state differs.
        let before = seen.insert(kind.clone(), now).unwrap_or(("running", sum.restarts));
        // A lower number of restarts only means that an actor of this kind was removed.
        if now.0 != before.0 || now.1 > before.1 {
            health_line!(info, kind, sum);
        }
    }
    seen.retain(|kind, _| sums.contains_key(kind));
}

/// Logs one line about the whole tree.
fn tell_tree(sums: &BTreeMap<String, Sum>) {
    let (actors, restarts) =
        sums.values().fold((0, 0), |(actors, restarts), sum| (actors + sum.count, restarts + sum.restarts));
    let not_running = sums.values().map(|sum| sum.count - sum.running).sum::<u64>();
    let deepest = sums.iter().max_by_key(|(_, sum)| sum.deepest).filter(|(_, sum)| sum.deepest > 0);
    tracing::info!(
        event = TREE_HEALTH,
        actors,
        not_running,
        restarts,
        deepest = deepest.map(|(kind, _)| kind.as_str()),
        mailbox = deepest.map_or(0, |(_, sum)| sum.deepest),
        "{actors} actors"
    );
}

fn sums(actors: &[Arc<Stats>]) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for stats in actors {
        let sum = sums.entry(stats.label.to_string()).or_default();
        let life = stats.life();
        sum.count += 1;
        sum.running += u64::from(life.state == LifeState::Running);
        sum.restarts += stats.restarts.load(Ordering::Relaxed);
        sum.handled += stats.handled.load(Ordering::Relaxed);
        let waiting = stats.depth.load(Ordering::Relaxed) as u64;
        sum.mailbox += waiting;
        sum.refused += stats.refused.load(Ordering::Relaxed);
        sum.deepest = sum.deepest.max(waiting);
        sum.last_error = life.last_error.or(sum.last_error.take());
    }
    sums
}

#[cfg(test)]
mod tests;
