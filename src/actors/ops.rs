//! ops: what operators see. First up, last down.
//!
//! Supervised by: staffai (permanent).
//! Receives: its own timers, and the end of its listener.
//! Sends: nothing; it reads the roster.
//! A restart loses: nothing; the listener binds again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::handle::{LifeState, Stats};
use super::roster::Roster;
use super::supervisor::{Actor, ActorContext, Crash};
use crate::ports::Listener;

/// How often each actor has a health line.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// How often the mailbox depths are measured.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// How long to wait before a listener that ended is started again.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// What ops is told.
pub enum OpsMsg {
    /// Time to log how everybody is.
    Health,
    /// Time to measure mailboxes.
    Measure,
    /// Time to listen.
    Listen,
    /// The listener ended.
    ListenerEnded(Result<(), String>),
}

/// The behaviour and its arguments.
pub struct Ops {
    /// Serves the pages.
    pub listener: Arc<dyn Listener>,
    /// Who lives.
    pub roster: Arc<Roster>,
}

/// What ops holds.
pub struct OpsState {
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Actor for Ops {
    type Msg = OpsMsg;
    type State = OpsState;

    fn start(&self, ctx: &mut ActorContext<OpsMsg>) -> Result<OpsState, Crash> {
        let stop = CancellationToken::new();
        let state = OpsState { _stop_on_drop: stop.clone().drop_guard(), stop };
        self.listen(ctx, &state);
        ctx.after(HEALTH_EVERY, OpsMsg::Health);
        ctx.after(MEASURE_EVERY, OpsMsg::Measure);
        Ok(state)
    }

    #[expect(clippy::cast_precision_loss, reason = "mailboxes are far below 2^52")]
    async fn handle(&self, ctx: &mut ActorContext<OpsMsg>, message: OpsMsg, state: &mut OpsState) -> Result<(), Crash> {
        match message {
            OpsMsg::Health => {
                for (kind, sum) in sums(&self.roster.all()) {
                    sum.log(&kind);
                }
                ctx.after(HEALTH_EVERY, OpsMsg::Health);
            }
            OpsMsg::Measure => {
                for (kind, sum) in sums(&self.roster.all()) {
                    metrics::gauge!("staffai_mailbox_depth", "actor" => kind).set(sum.mailbox as f64);
                }
                ctx.after(MEASURE_EVERY, OpsMsg::Measure);
            }
            OpsMsg::Listen => self.listen(ctx, state),
            OpsMsg::ListenerEnded(Ok(())) => {}
            OpsMsg::ListenerEnded(Err(reason)) => {
                tracing::error!(event = "ops.unreachable", reason, "health and pages cannot be served; trying again");
                ctx.after(LISTEN_AGAIN, OpsMsg::Listen);
            }
        }
        Ok(())
    }
}

impl Ops {
    fn listen(&self, ctx: &mut ActorContext<OpsMsg>, state: &OpsState) {
        let listener = Arc::clone(&self.listener);
        let stop = state.stop.clone();
        ctx.task(async move { OpsMsg::ListenerEnded(listener.serve(stop).await) }, |panic| {
            OpsMsg::ListenerEnded(Err(panic))
        });
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
    last_error: Option<String>,
}

impl Sum {
    fn log(&self, kind: &str) {
        let state = if self.running == self.count { "running" } else { "restarting" };
        tracing::info!(
            event = "actor.health",
            actor = kind,
            state,
            count = self.count,
            restarts = self.restarts,
            mailbox = self.mailbox,
            handled = self.handled,
            last_error = self.last_error.as_deref(),
            "actor health"
        );
    }
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
        sum.mailbox += stats.depth.load(Ordering::Relaxed) as u64;
        sum.last_error = life.last_error.or(sum.last_error.take());
    }
    sums
}

#[cfg(test)]
mod tests;
