//! Answers that their platform refuses again and again: they go on beside the queues of their place, so that no other answer waits.
//!
//! One courier at a time sweeps over them in the order of their coming, with one round of tries for each, and pauses after a sweep. If
//! two answers in a row are refused and none is taken between them, the place is stuck: that is an outage rather than a bad answer.
//! Then the queues wait, so that the order holds, and the sweep includes their first answer. The first answer that is taken ends that.

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

/// The most answers of one place that go on beside its queues. Beyond that the queues wait as well.
const BESIDE_MAX: usize = 16;
/// The refusals that others wait for while an answer goes on beside them: a second bad answer is rarer than an outage.
const SUSPICIOUS: u32 = 2;
/// The most places that readiness names.
const PLACES_NAMED: usize = 20;

/// What goes on beside the queues of a place.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that stands by itself")]
pub(super) struct Beside {
    /// Those that wait for the next sweep, the oldest first.
    tried: VecDeque<Job>,
    /// Those that the sweep has yet to come to.
    untried: VecDeque<Job>,
    /// The one that a courier is out with.
    out: Option<Task>,
    /// The timer of the next sweep runs.
    timed: bool,
    /// Nothing was taken here since the last refusal of another answer: the queues wait.
    pub stuck: bool,
    /// An answer was taken in this sweep.
    taken: bool,
    /// The sweep has come to the first answer of the queues.
    past_queues: bool,
}

impl Beside {
    /// Nothing goes on beside the queues.
    pub(super) fn is_empty(&self) -> bool {
        self.tried.is_empty() && self.untried.is_empty() && self.out.is_none()
    }

    /// The refusals after which an answer of the queues lets the others pass.
    pub(super) fn patience(&self) -> u32 {
        if self.is_empty() { BESIDE_AFTER } else { SUSPICIOUS }
    }

    pub(super) fn holds(&self, task: &Task) -> bool {
        let mut jobs = self.tried.iter().chain(&self.untried);
        self.out.as_ref() == Some(task) || jobs.any(|job| job.task == *task)
    }

    /// One more, the youngest.
    pub(super) fn add(&mut self, job: Job) {
        self.tried.push_back(job);
    }

    /// All that wait.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Job> + '_ {
        self.untried.drain(..).chain(self.tried.drain(..))
    }

    /// Takes some of them out. A courier that is out with one goes on.
    pub(super) fn take(&mut self, is_it: impl Fn(&Task) -> bool) -> VecDeque<Job> {
        let mut taken = job::take_out(&mut self.untried, &is_it);
        taken.extend(job::take_out(&mut self.tried, &is_it));
        taken
    }

    /// The courier of the sweep is back.
    pub(super) fn returned(&mut self) {
        self.out = None;
    }

    fn is_full(&self) -> bool {
        self.tried.len() + self.untried.len() >= BESIDE_MAX
    }
}

impl Outbox {
    /// The platform refused an answer for now: it goes on beside the others.
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
            // A journal that refuses this offers the answer again.
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
            tracing::info!(event = "outbox.beside", place = %place, %reason, "the answers behind a refused one go on");
            queue.beside.add(job);
        }
        Self::sweep_after(ctx, state, place, pause);
    }

    /// Begins a sweep after a pause, or in time for the next apology; not while one is under way or about to begin.
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

    /// Sends a courier with the next one of the sweep, or ends it.
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
            return Self::send(ctx, place, courier, (job, None));
        }
        queue.beside.stuck &= !queue.beside.taken;
        if queue.beside.is_empty() {
            queue.beside.stuck = false;
            return self.settled(state, place);
        }
        let refused = queue.beside.tried.iter().map(|job| job.tries.refused).min().unwrap_or(0);
        Self::sweep_after(ctx, state, place, Courier::pause_of_round(refused, self.dice.roll()));
    }

    // === What readiness says of it ===

    /// An answer was taken in a place.
    pub(super) fn taken(&self, state: &mut OutboxState, place: &Place) {
        if let Some(queue) = state.lanes.get_mut(place) {
            queue.beside.taken = true;
            // The sweep in progress ends it in order.
            queue.beside.stuck &= queue.beside.out.is_some() || !queue.beside.untried.is_empty();
        }
        if std::mem::replace(&mut state.refuses_all, false) {
            self.board.forget(PartKind::Posts, &self.posts());
        }
    }

    /// An answer goes on beside the others of its place; nothing was taken at the door since.
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

    /// Nothing goes on beside the others of a place any more.
    fn settled(&self, state: &mut OutboxState, place: &Place) {
        if state.refusing.remove(place) {
            self.board.forget(PartKind::Place, &place.to_string());
        }
        if state.refusing.is_empty() && std::mem::replace(&mut state.refuses_all, false) {
            self.board.forget(PartKind::Posts, &self.posts());
        }
    }

    /// The name of the part that stands for all posts of the door.
    pub(super) fn posts(&self) -> String {
        format!("{}:posts", self.door)
    }
}
