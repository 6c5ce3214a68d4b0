//! `timers`: starts turns at the times that the operator configured.
//!
//! Supervised by: staffai (permanent).
//! Receives: its own timer, and the progress of its task.
//! Sends: fires to the gateway, which are turns from then on.
//! A restart loses: nothing. The store holds the time up to which each timer is processed, and the id of a fire is the
//! same in every process.
//!
//! A fire is passed to the gateway until the journal has recorded it; only then it counts as processed. A fire that was
//! due while no process ran is made up at the next start, once and within its grace period. Several processes on one
//! store claim a fire one after the other, for [`CLAIM`](domain::fire::CLAIM) each; a process that finds the turn on
//! record skips the fire.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::intake::GatewayIntake;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::Live;
use domain::fire::Fire;
use domain::ids::{Person, Timestamp, TurnId};
use domain::incoming::Incoming;
use domain::keys;
use domain::limits::Decision;
use domain::ownership::Range;
use domain::timer::{Due, Timer};
use ports::{Clock, Intake, Limiter, Store, Stored, Write};
use telemetry::events::TRIGGER_REFUSED;

/// The interval of the checks for due fires.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Events from its timer and its task.
pub enum TimersEvent {
    /// The time to check for due fires.
    Look,
    /// The check of all timers is complete; `None` if it panicked.
    Looked(Option<BTreeMap<String, TimerState>>),
}

/// The behaviour and its arguments.
#[derive(Clone)]
pub struct Timers {
    /// The running configuration.
    pub live: Live,
    /// The store of the processed times.
    pub store: Arc<dyn Store>,
    /// Counts the turns of each timer, and lets one process claim a fire.
    pub limiter: Arc<dyn Limiter>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The intake of the gateway.
    pub intake: Arc<GatewayIntake>,
    /// The identifier of this process among processes on the same store.
    pub process: Arc<str>,
    /// The ranges of turns that other processes took over. Their owners fire the timers of these doors.
    pub fenced: watch::Receiver<Vec<Range>>,
}

/// The state of one timer.
pub struct TimerState {
    mark: Mark,
    /// The time before which nothing is due.
    next: Option<Timestamp>,
}

/// The time up to which a timer is processed, as stored.
#[derive(Serialize, Deserialize)]
struct Mark {
    /// The expression and zone. If they changed, everything up to now counts as processed.
    schedule: String,
    /// The end of the processed time.
    done: Timestamp,
}

/// The result of a fire.
enum Fate {
    /// Its turn is on record.
    Taken,
    /// The fire exceeds the budget of its timer.
    OverBudget,
    /// Another process handles it, or the hand-over failed: it is checked again.
    Later,
}

impl Actor for Timers {
    type Msg = Infallible;
    type Event = TimersEvent;
    type State = BTreeMap<String, TimerState>;

    fn start(&self, ctx: &mut ActorContext<Timers>) -> Result<Self::State, Crash> {
        ctx.after(Duration::ZERO, TimersEvent::Look);
        Ok(BTreeMap::new())
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut Self::State,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: TimersEvent,
        state: &mut Self::State,
    ) -> Result<(), Crash> {
        match event {
            TimersEvent::Look if self.live.now().triggers.timers.is_empty() => {
                state.clear();
                ctx.after(LOOK_EVERY, TimersEvent::Look);
            }
            TimersEvent::Look => {
                let (timers, known) = (self.clone(), std::mem::take(state));
                let look = async move { TimersEvent::Looked(Some(timers.look(known).await)) };
                ctx.task(look, |_| TimersEvent::Looked(None));
            }
            TimersEvent::Looked(known) => {
                *state = known.unwrap_or_default();
                ctx.after(LOOK_EVERY, TimersEvent::Look);
            }
        }
        Ok(())
    }
}

impl Timers {
    /// Handles the due fires, and returns the state of each timer. No timer blocks another, even by a panic.
    async fn look(&self, mut known: BTreeMap<String, TimerState>) -> BTreeMap<String, TimerState> {
        let running = self.live.now();
        let looks = running.triggers.timers.iter().map(|timer| {
            let name = &timer.action.name;
            let known = known.remove(name).filter(|known| known.mark.schedule == timer.schedule.as_str());
            let look = async move {
                let known = match known {
                    Some(known) => known,
                    None => self.read(timer).await?,
                };
                self.attend(timer, known).await
            };
            let look = AssertUnwindSafe(look).catch_unwind();
            async move { Some((name.clone(), look.await.ok()??)) }
        });
        join_all(looks).await.into_iter().flatten().collect()
    }

    /// Reads the state of a timer. A new timer counts as processed up to now; `None` while the store gives no reliable
    /// answer.
    async fn read(&self, timer: &Timer) -> Option<TimerState> {
        let stored = self.certain(&keys::triggers::timer(&timer.action.name)).await?;
        let mark = stored.and_then(|text| serde_json::from_str::<Mark>(&text).ok());
        match mark.filter(|mark| mark.schedule == timer.schedule.as_str()) {
            Some(mark) => Some(TimerState { mark, next: None }),
            None => Some(self.dealt_with(timer, self.clock.now())),
        }
    }

    /// Returns the value of a key; `None` if it cannot be read, so that it may exist.
    async fn certain(&self, key: &str) -> Option<Option<String>> {
        match self.store.read(key).await {
            Stored::Unreadable(_) => None,
            stored => Some(stored.value()),
        }
    }

    /// Handles the due fire of one timer. `None` if the store must be read again.
    async fn attend(&self, timer: &Timer, known: TimerState) -> Option<TimerState> {
        let now = self.clock.now();
        if known.next.is_some_and(|next| now < next) {
            return Some(known);
        }
        let name = &timer.action.name;
        match timer.due(known.mark.done, now) {
            Due::Later(next) => Some(TimerState { next: next.or(Some(Timestamp(u64::MAX))), ..known }),
            Due::Missed(due) => {
                tracing::warn!(
                    event = TRIGGER_REFUSED,
                    name,
                    reason = "late",
                    "a timer was missed: it could not fire within its grace period"
                );
                Some(self.dealt_with(timer, due))
            }
            Due::Fires(due) => match self.fire(timer.fire(due, now)).await {
                Fate::Taken => Some(self.dealt_with(timer, due)),
                Fate::OverBudget => {
                    tracing::warn!(event = TRIGGER_REFUSED, name, reason = "budget", "a timer is over its budget");
                    Some(self.dealt_with(timer, due))
                }
                Fate::Later => None,
            },
        }
    }

    async fn fire(&self, fire: Fire) -> Fate {
        if self.fenced.borrow().iter().any(|range| *range.door() == fire.id.door) {
            return Fate::Later;
        }
        match self.certain(&keys::turn(&TurnId::of(&fire.id))).await {
            Some(None) => {}
            Some(Some(_)) => return Fate::Taken,
            None => return Fate::Later,
        }
        if !matches!(self.limiter.step(fire.claim(&self.process)).await, Decision::Admitted) {
            return Fate::Later;
        }
        if let Decision::Refused(_) = self.limiter.step(fire.budget()).await {
            return Fate::OverBudget;
        }
        let us = Person::new(fire.id.door.clone(), "staffai");
        match self.intake.accept(Incoming::Fired(Box::new(fire)), us).await {
            Ok(()) => Fate::Taken,
            Err(_) => Fate::Later,
        }
    }

    /// Records that everything up to a time is processed.
    fn dealt_with(&self, timer: &Timer, done: Timestamp) -> TimerState {
        let mark = Mark { schedule: timer.schedule.as_str().to_owned(), done };
        let key = keys::triggers::timer(&timer.action.name);
        // Plain data always serializes.
        let value = serde_json::to_string(&mark).unwrap_or_default();
        drop(self.store.write(vec![Write::Put { key, value, ttl: Some(keys::triggers::TIMER_TTL) }]));
        TimerState { mark, next: None }
    }
}

#[cfg(test)]
mod tests;
