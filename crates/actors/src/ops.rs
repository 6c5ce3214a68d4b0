//! ops: what operators see. First up, last down.
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
use crate::runtime::handle::{LifeState, Stats};
use crate::runtime::roster::Roster;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use ports::{Listener, Vitals};

/// How often the tree has a health line, and each kind of actor a detailed one.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// How often mailboxes and states are looked at and the gauges are set.
const MEASURE_EVERY: Duration = Duration::from_secs(5);

/// One line about all actors of a kind; the level is part of a place in the code, so each level has a line of its own.
macro_rules! health_line {
    ($level:ident, $kind:expr, $sum:expr) => {
        tracing::$level!(
            event = "actor.health",
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

/// What its timers and its listener tell it.
pub enum OpsEvent {
    /// Time to log how the actors are.
    Health,
    /// Time to look at mailboxes, states and gauges.
    Measure,
    /// Time to take a sample.
    Sample,
    /// A sample was taken beside this actor.
    Sampled,
    /// Time to listen.
    Listen,
    /// The listener ended.
    ListenerEnded(Result<(), String>),
}

/// So many actors are looked at in well under a millisecond; a look at more does not run where others wait.
const SAMPLED_AT_ONCE: usize = 2_000;

/// The behaviour and its arguments.
pub struct Ops {
    /// Serves the pages.
    pub listener: Arc<dyn Listener>,
    /// Who lives.
    pub roster: Arc<Roster>,
    /// How the whole program is.
    pub vitals: Arc<dyn Vitals>,
}

/// What ops holds.
pub struct OpsState {
    /// State and restarts of each kind of actor when they were last looked at.
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
                        drop(tokio::task::spawn_blocking(move || vitals.sample()).await);
                        OpsEvent::Sampled
                    };
                    ctx.task(sampled, |_| OpsEvent::Sampled);
                }
            }
            OpsEvent::Sampled => ctx.after(samples::EVERY, OpsEvent::Sample),
            OpsEvent::Listen => state.serving.begin(ctx, &self.listener, OpsEvent::ListenerEnded),
            OpsEvent::ListenerEnded(Ok(())) => {}
            OpsEvent::ListenerEnded(Err(reason)) => {
                tracing::error!(event = "ops.unreachable", reason, "health and pages cannot be served; trying again");
                ctx.after(LISTEN_AGAIN, OpsEvent::Listen);
            }
        }
        Ok(())
    }
}

/// What is told of all actors of one kind together: single conversations are never named.
#[derive(Default)]
struct Sum {
    count: u64,
    running: u64,
    restarts: u64,
    handled: u64,
    mailbox: u64,
    /// Messages that were refused because a mailbox was full.
    refused: u64,
    /// Messages in the deepest mailbox of one of them.
    deepest: u64,
    last_error: Option<String>,
}

impl Sum {
    const fn state(&self) -> &'static str {
        if self.running == self.count { "running" } else { "restarting" }
    }
}

/// A line for each kind whose state changed since the last look, or that was restarted meanwhile.
fn tell_changes(sums: &BTreeMap<String, Sum>, seen: &mut BTreeMap<String, (&'static str, u64)>) {
    for (kind, sum) in sums {
        let now = (sum.state(), sum.restarts);
        // What was never seen before runs as it should unless it says otherwise.
        let before = seen.insert(kind.clone(), now).unwrap_or(("running", sum.restarts));
        // Fewer restarts than before only means that an actor of this kind is gone.
        if now.0 != before.0 || now.1 > before.1 {
            health_line!(info, kind, sum);
        }
    }
    seen.retain(|kind, _| sums.contains_key(kind));
}

/// One line about the whole tree.
fn tell_tree(sums: &BTreeMap<String, Sum>) {
    let (actors, restarts) =
        sums.values().fold((0, 0), |(actors, restarts), sum| (actors + sum.count, restarts + sum.restarts));
    let not_running = sums.values().map(|sum| sum.count - sum.running).sum::<u64>();
    let deepest = sums.iter().max_by_key(|(_, sum)| sum.deepest).filter(|(_, sum)| sum.deepest > 0);
    tracing::info!(
        event = "tree.health",
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
