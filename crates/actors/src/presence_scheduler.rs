//! `presence_scheduler`: decides how the bot is shown beside its name, and has the line of status written.
//!
//! Supervised by: staffai (permanent).
//! Receives: its timer, the lines that its tasks wrote, the wish for another line.
//! Sends: requests for a permit and reports of calls to the dispatcher.
//! What is to be shown stands in one slot, which every connection samples within the platform's bounds.
//! A restart loses: the line that is being written, and where the kinds were in their rotation. What is shown stays.

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

/// How often it is looked at what should be shown.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon a line is asked for again when no permit was to spare.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The outcome of writing a line.
pub enum Written {
    /// The line.
    Line(Line),
    /// Nothing that can be shown: the line before stays.
    Nothing,
    /// There was no permit to spare.
    Busy,
}

/// The slot of what is to be shown; none until there is anything.
pub type Slot = Arc<watch::Sender<Option<Presence>>>;

/// What its timer and its task tell it.
pub enum PresenceEvent {
    /// Time to look at what should be shown.
    Look,
    /// A task wrote a line, or not, and this is what it took.
    Written(Written, Box<Effort>),
}

/// The behaviour and its arguments.
pub struct PresenceScheduler {
    /// Which platform it is shown at.
    pub door: Door,
    /// What this process runs with.
    pub live: Live,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// How the parts are.
    pub board: Arc<Board>,
    /// The same of the store.
    pub store: Arc<dyn Store>,
    /// Who lets it ask a model.
    pub dispatcher: Handle<LlmDispatcherMsg>,
    /// What is to be shown; it outlives this actor.
    pub slot: Slot,
}

/// What the scheduler holds.
pub struct PresenceState {
    line: Option<Line>,
    /// The last lines, so that they are not written again.
    earlier: VecDeque<Arc<str>>,
    /// The number of the next line.
    next: usize,
    writing: bool,
    /// When the next line is due.
    due: Instant,
}

impl Actor for PresenceScheduler {
    type Msg = PresenceMsg;
    type Event = PresenceEvent;
    type State = PresenceState;

    fn start(&self, ctx: &mut ActorContext<PresenceScheduler>) -> Result<PresenceState, Crash> {
        ctx.after(LOOK_EVERY, PresenceEvent::Look);
        // A line that another life had written goes on.
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
            // Without lines only the hours are shown.
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
                // The next line may be what shows that a model answers again.
                return self.write_when_due(ctx, state);
            }
            // There is nobody to be shown to, or soon nobody any more.
            Status::Starting | Status::Draining | Status::Down => return,
        }
        if state.line.is_some() {
            self.show(Presence { mood: Mood::Online, line: state.line.clone() });
        } else if self.slot.borrow().is_some() {
            // It shows what is over.
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

    /// What no member asked for goes on the bot's own account.
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
