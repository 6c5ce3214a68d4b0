//! `presence_scheduler`: decides the presence shown beside the bot's name, and has the status line written.
//!
//! Supervised by: staffai (permanent).
//! Receives: its timer, the lines from its tasks, refresh requests.
//! Sends: permit requests and call reports to the dispatcher.
//! The presence is in one slot, which every connection samples within the platform's bounds.
//! A restart loses: the line in progress, and the position in the rotation of kinds. The shown presence stays.

mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::messages::llm_dispatcher::LlmDispatcherMsg;
use crate::messages::presence_scheduler::PresenceMsg;
use crate::observation::board::Board;
use crate::observation::vitals;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::running::Live;
use domain::completion::Usage;
use domain::ids::Door;
use domain::ledger::{self, Tally};
use domain::notice;
use domain::presence::{ActivityKind, EARLIER_MAX, Line, Mood, Presence};
use domain::schedule::Schedule;
use domain::turn::Effort;
use ports::vitals::Status;
use ports::{Clock, Store, Write};
use settings::community;

/// The interval of the checks of the presence.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The delay of the next attempt if no spare permit is available.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The result of writing a line.
pub enum Written {
    /// The line.
    Line(Line),
    /// No usable line: the previous line stays.
    Nothing,
    /// No spare permit was available.
    Busy,
}

/// The slot of the presence; `None` until there is one.
pub type Slot = Arc<watch::Sender<Option<Presence>>>;

/// Events from its timer and its task.
pub enum PresenceEvent {
    /// The time to check the presence.
    Look,
    /// The result of a task that writes a line, and its cost.
    Written(Written, Box<Effort>),
}

/// The behaviour and its arguments.
pub struct PresenceScheduler {
    /// The platform's door.
    pub door: Door,
    /// The running configuration.
    pub live: Live,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The states of the parts.
    pub board: Arc<Board>,
    /// The store, and its state.
    pub store: Arc<dyn Store>,
    /// The dispatcher of model permits.
    pub dispatcher: Handle<LlmDispatcherMsg>,
    /// The slot of the presence; it outlives this actor.
    pub slot: Slot,
}

/// The state of the scheduler.
pub struct PresenceState {
    line: Option<Line>,
    /// The last lines, which are not repeated.
    earlier: VecDeque<Arc<str>>,
    /// The number of the next line.
    next: usize,
    writing: bool,
    /// The time of the next line.
    due: Instant,
}

impl Actor for PresenceScheduler {
    type Msg = PresenceMsg;
    type Event = PresenceEvent;
    type State = PresenceState;

    fn start(&self, ctx: &mut ActorContext<PresenceScheduler>) -> Result<PresenceState, Crash> {
        ctx.after(LOOK_EVERY, PresenceEvent::Look);
        // A line that an earlier life had written stays.
        let line =
            self.slot.borrow().as_ref().filter(|shown| shown.mood == Mood::Online).and_then(|it| it.line.clone());
        Ok(PresenceState { line, earlier: VecDeque::new(), next: 0, writing: false, due: Instant::now() })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: PresenceMsg,
        state: &mut PresenceState,
    ) -> Result<(), Crash> {
        match message {
            PresenceMsg::Refresh => {
                state.due = Instant::now();
                self.look(ctx, state);
            }
        }
        Ok(())
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: PresenceEvent,
        state: &mut PresenceState,
    ) -> Result<(), Crash> {
        match event {
            PresenceEvent::Look => {
                self.look(ctx, state);
                ctx.after(LOOK_EVERY, PresenceEvent::Look);
            }
            PresenceEvent::Written(written, effort) => {
                self.spent(&effort);
                self.written(state, written);
                self.look(ctx, state);
            }
        }
        Ok(())
    }
}

impl PresenceScheduler {
    fn look(&self, ctx: &mut ActorContext<PresenceScheduler>, state: &mut PresenceState) {
        let running = self.live.now();
        let settings = &running.settings.presence;
        if settings.interval.is_zero() && !settings.schedule_enabled {
            return;
        }
        let status = vitals::condition(&self.board, &*self.store, &running).0;
        let is_shown = matches!(status, Status::Ready | Status::Standby | Status::Degraded);
        if is_shown && !self.is_active(settings) {
            return self.show(Presence { mood: Mood::Idle, line: None });
        }
        match status {
            // Without lines, only the schedule is shown.
            Status::Ready | Status::Standby | Status::Degraded if settings.interval.is_zero() => {
                if self.slot.borrow().is_some() {
                    self.show(Presence { mood: Mood::Online, line: None });
                }
                return;
            }
            Status::Ready | Status::Standby => {}
            Status::Degraded => {
                let text = notice::unwell().into();
                self.show(Presence { mood: Mood::Busy, line: Some(Line { kind: ActivityKind::Custom, text }) });
                // The next line can show that a model answers again.
                return self.write_when_due(ctx, state);
            }
            // No connection shows it, or soon none will.
            Status::Starting | Status::Draining | Status::Down => return,
        }
        if state.line.is_some() {
            self.show(Presence { mood: Mood::Online, line: state.line.clone() });
        } else if self.slot.borrow().is_some() {
            // The line is out of date.
            self.show(Presence { mood: Mood::Online, line: None });
        }
        self.write_when_due(ctx, state);
    }

    fn is_active(&self, settings: &community::Presence) -> bool {
        let schedule = Schedule { start: settings.start_hour, end: settings.end_hour, days: settings.days.clone() };
        !settings.schedule_enabled || schedule.is_active(self.clock.now())
    }

    fn write_when_due(&self, ctx: &mut ActorContext<PresenceScheduler>, state: &mut PresenceState) {
        if state.writing || state.due > Instant::now() {
            return;
        }
        state.writing = true;
        let (running, dispatcher) = (self.live.now(), self.dispatcher.clone());
        let kind = ActivityKind::of(state.next);
        let earlier: Vec<Arc<str>> = state.earlier.iter().cloned().collect();
        ctx.task(
            async move {
                let (written, effort) = writing::write(&running, &dispatcher, kind, &earlier).await;
                PresenceEvent::Written(written, Box::new(effort))
            },
            |_| PresenceEvent::Written(Written::Nothing, Box::default()),
        );
    }

    /// Charges work without a request of a member to the bot's own account.
    fn spent(&self, effort: &Effort) {
        if effort.usage != Usage::default() {
            let tally = Tally::of(effort);
            let writes = ledger::own(&self.door, None, ledger::PRESENCE, tally, self.clock.now());
            drop(self.store.write(writes.into_iter().map(Write::from).collect()));
        }
    }

    fn written(&self, state: &mut PresenceState, written: Written) {
        let interval = self.live.now().settings.presence.interval;
        state.writing = false;
        state.due = Instant::now() + interval;
        match written {
            Written::Line(line) => {
                state.next = state.next.wrapping_add(1);
                if state.earlier.len() == EARLIER_MAX {
                    state.earlier.pop_front();
                }
                state.earlier.push_back(Arc::clone(&line.text));
                state.line = Some(line);
            }
            Written::Nothing => state.next = state.next.wrapping_add(1),
            Written::Busy => state.due = Instant::now() + interval.min(AGAIN_AFTER),
        }
    }

    fn show(&self, presence: Presence) {
        self.slot.send_if_modified(|shown| {
            let changed = shown.as_ref() != Some(&presence);
            *shown = Some(presence);
            changed
        });
    }
}

#[cfg(test)]
mod tests;
