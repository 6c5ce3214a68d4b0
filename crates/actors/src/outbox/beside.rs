//! Answers that the platform keeps refusing: they move beside the queues of their place, so that they delay no other
//! answer.
//!
//! One courier at a time sweeps over them in order of arrival, with one round of tries for each, and pauses after a
//! sweep. If two answers in a row are refused and none is accepted between them, the place is stuck: that is an outage
//! rather than a bad answer. Then the queues stop, so that the order holds, and the sweep includes their first answer.
//! The first accepted answer ends the outage.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::courier::{BESIDE, Courier, GIVE_UP_AFTER};
use super::job::{self, Job, Task};
use super::pace::Track;
use super::queue::CLOSED_FOR;
use super::{Outbox, OutboxEvent, OutboxState};
use crate::messages::journal::JournalMsg;
use crate::observation::board::PartKind;
use crate::runtime::supervisor::ActorContext;
use domain::delivery::BESIDE_AFTER;
use domain::ending::Unposted;
use domain::ids::Place;
use telemetry::events::OUTBOX_BESIDE;

/// The most answers of one place beside its queues. Beyond that the queues stop as well.
const BESIDE_MAX: usize = 16;
/// The refusals after which other answers pass while an answer is already beside the queues: a second bad answer is
/// rarer than an outage.
const SUSPICIOUS: u32 = 2;
/// The most places that readiness names.
const PLACES_NAMED: usize = 20;

/// The answers beside the queues of a place.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that stands by itself")]
pub(super) struct Beside {
    /// The answers for the next sweep, the oldest first.
    tried: VecDeque<Job>,
    /// The answers that are left in the current sweep.
    untried: VecDeque<Job>,
    /// The answer that a courier carries.
    out: Option<Task>,
    /// True if the timer of the next sweep is running.
    timed: bool,
    /// True if another answer was refused and none has been accepted here since: the queues stop.
    pub stuck: bool,
    /// True if an answer was accepted in this sweep.
    taken: bool,
    /// True if the sweep has reached the first answer of the queues.
    past_queues: bool,
}

impl Beside {
    /// True if no answer is beside the queues.
    pub(super) fn is_empty(&self) -> bool {
        self.tried.is_empty() && self.untried.is_empty() && self.out.is_none()
    }

    /// Returns the number of refusals after which an answer of the queues lets others pass.
    pub(super) fn patience(&self) -> u32 {
        if self.is_empty() { BESIDE_AFTER } else { SUSPICIOUS }
    }

    pub(super) fn holds(&self, task: &Task) -> bool {
        let mut jobs = self.tried.iter().chain(&self.untried);
        self.out.as_ref() == Some(task) || jobs.any(|job| job.task == *task)
    }

    /// Adds the youngest answer.
    pub(super) fn add(&mut self, job: Job) {
        self.tried.push_back(job);
    }

    /// Removes all answers that no courier carries.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Job> + '_ {
        self.untried.drain(..).chain(self.tried.drain(..))
    }

    /// Removes the matching answers. A courier in flight continues.
    pub(super) fn take(&mut self, is_it: impl Fn(&Task) -> bool) -> VecDeque<Job> {
        let mut taken = job::take_out(&mut self.untried, &is_it);
        taken.extend(job::take_out(&mut self.tried, &is_it));
        taken
    }

    /// Records that the courier of the sweep returned.
    pub(super) fn returned(&mut self) {
        self.out = None;
    }

    fn is_full(&self) -> bool {
        self.tried.len() + self.untried.len() >= BESIDE_MAX
    }
}

impl Outbox {
    /// Moves an answer that the platform refused for now beside the queues.
    pub(super) fn refused(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        place: &Place,
        (job, track): (Job, Option<Track>),
        reason: Unposted,
    ) {
        let until = job.tries.begun.map(|begun| begun + GIVE_UP_AFTER);
        if until.is_some_and(|until| until <= Instant::now()) {
            return self.report(state, job.task, Err(reason));
        }
        if let Task::Turn(turn) = &job.task {
            // If the journal refuses this, it offers the answer again.
            self.journal.tell(JournalMsg::Refused(turn.clone(), job.tries.refused, job.tries.refused_for()));
        }
        self.refuses(state, place, &reason.to_string());
        let Some(queue) = state.lanes.get_mut(place) else { return };
        let Some(track) = track else { return queue.beside.tried.push_back(job) };
        queue.beside.stuck |= !queue.beside.is_empty();
        let pause = Courier::pause_of_round(job.tries.refused, self.dice.roll());
        if queue.beside.is_full() {
            queue.beside.stuck = true;
            queue.line(track).jobs.push_front(job);
        } else {
            tracing::info!(event = OUTBOX_BESIDE, place = %place, %reason, "the answers behind a refused one go on");
            queue.beside.add(job);
        }
        Self::sweep_after(ctx, state, place, pause);
    }

    /// Schedules a sweep after a pause, or earlier for the next apology. No effect if a sweep is running or scheduled.
    pub(super) fn sweep_after(ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place, pause: Duration) {
        let Some(queue) = state.lanes.get_mut(place) else { return };
        let beside = &mut queue.beside;
        if beside.is_empty() || beside.timed || beside.out.is_some() {
            return;
        }
        let now = Instant::now();
        let signs = beside.tried.iter().filter_map(|job| Some(job.rescue?.at.saturating_duration_since(now)));
        let sign = signs.filter(|left| !left.is_zero()).min();
        beside.timed = true;
        ctx.after(sign.map_or(pause, |sign| sign.min(pause)), OutboxEvent::Sweep(place.clone()));
    }

    /// Begins a sweep.
    pub(super) fn sweep(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place) {
        let Some(queue) = state.lanes.get_mut(place) else { return self.settled(state, place) };
        queue.beside.timed = false;
        if queue.closed.is_some() {
            return Self::sweep_after(ctx, state, place, CLOSED_FOR);
        }
        let beside = &mut queue.beside;
        (beside.taken, beside.past_queues) = (false, false);
        beside.untried.append(&mut beside.tried);
        self.sweep_on(ctx, state, place);
        self.send_couriers(ctx, state, place);
    }

    /// Sends a courier with the next answer of the sweep, or ends the sweep.
    pub(super) fn sweep_on(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place) {
        let Some(queue) = state.lanes.get_mut(place) else { return self.settled(state, place) };
        let next = queue.beside.untried.pop_front().or_else(|| {
            let first = !std::mem::replace(&mut queue.beside.past_queues, true);
            let tries = first && queue.beside.stuck && !queue.beside.taken && !queue.beside.is_full();
            tries.then(|| queue.edits.jobs.pop_front().or_else(|| queue.posts.jobs.pop_front())).flatten()
        });
        if let Some(job) = next {
            queue.beside.out = Some(job.task.clone());
            let courier = Courier { patience: Some(BESIDE), ..self.courier(queue.pace.clone()) };
            return Self::send(ctx, place, courier, job, None);
        }
        queue.beside.stuck &= !queue.beside.taken;
        if queue.beside.is_empty() {
            queue.beside.stuck = false;
            return self.settled(state, place);
        }
        let refused = queue.beside.tried.iter().map(|job| job.tries.refused).min().unwrap_or(0);
        Self::sweep_after(ctx, state, place, Courier::pause_of_round(refused, self.dice.roll()));
    }

    // === Readiness ===

    /// Records that an answer was accepted in a place.
    pub(super) fn taken(&self, state: &mut OutboxState, place: &Place) {
        if let Some(queue) = state.lanes.get_mut(place) {
            queue.beside.taken = true;
            // The current sweep ends the outage in order.
            queue.beside.stuck &= queue.beside.out.is_some() || !queue.beside.untried.is_empty();
        }
        if std::mem::replace(&mut state.refuses_all, false) {
            self.board.forget(PartKind::Posts, &self.posts());
        }
    }

    /// Reports that an answer moved beside the queues of its place, with none accepted at the door since.
    fn refuses(&self, state: &mut OutboxState, place: &Place, reason: &str) {
        if state.refusing.len() < PLACES_NAMED {
            state.refusing.insert(place.clone());
        }
        if state.refusing.contains(place) {
            self.board.down(PartKind::Place, &place.to_string(), reason);
        }
        state.refuses_all = true;
        self.board.down(PartKind::Posts, &self.posts(), reason);
    }

    /// Reports that no answer is beside the queues of a place any more.
    fn settled(&self, state: &mut OutboxState, place: &Place) {
        if state.refusing.remove(place) {
            self.board.forget(PartKind::Place, &place.to_string());
        }
        if state.refusing.is_empty() && std::mem::replace(&mut state.refuses_all, false) {
            self.board.forget(PartKind::Posts, &self.posts());
        }
    }

    /// Returns the name of the part that represents all posts of the door.
    pub(super) fn posts(&self) -> String {
        format!("{}:posts", self.door)
    }
}
