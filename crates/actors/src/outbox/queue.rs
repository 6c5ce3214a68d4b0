//! The queues of a place: the pending posts and edits, the couriers in flight, and their results.
//!
//! Posts wait for each other, because members read them in order. A short answer may pass a new long one of another
//! person ([`job::take_next`]). An answer with messages in the channel begins with
//! edits in a separate queue: platforms count edits in another bucket, and no post waits for an edit.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::beside::Beside;
use super::courier::Courier;
use super::job::{self, End, Job, Length, Returned, Task};
use super::pace::{SharedPace, Track};
use super::{Outbox, OutboxEvent, OutboxState};
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::Delivery;
use crate::runtime::supervisor::ActorContext;
use domain::ending::Unposted;
use domain::ids::{Place, TurnId};
use domain::layout;
use domain::rejection::Rejection;
use ports::AccessScope;
use telemetry::events::{OUTBOX_CLOSED, OUTBOX_REFUSED, OUTBOX_RETRIED};

/// The pause of a closed place before the next answer probes it.
pub(super) const CLOSED_FOR: Duration = Duration::from_secs(5);
/// The number of probes of a forbidden place after which all of its queued answers fail. A place that is gone is not
/// probed.
pub(super) const PROBES_MAX: u32 = 3;

/// The number of messages of a short answer at most.
const SHORT_MESSAGES: usize = 2;

#[derive(Default)]
pub(super) struct PlaceQueue {
    pub posts: Line,
    pub edits: Line,
    /// The answers beside the queues, which the platform refuses.
    pub beside: Beside,
    /// The limits of the place.
    pub pace: SharedPace,
    /// Set if the platform closed the place and no answer has been accepted there since.
    pub closed: Option<Closed>,
}

/// The queue of one kind of request.
#[derive(Default)]
pub(super) struct Line {
    pub jobs: VecDeque<Job>,
    /// The task that a courier carries.
    pub out: Option<Task>,
}

/// The state of a closed place.
pub(super) struct Closed {
    /// The end of the pause; the next answer after it is a probe.
    pub until: Instant,
    /// The number of times it was found closed.
    pub refusals: u32,
}

/// A job that failed because its place is closed.
struct ClosedJob {
    job: Job,
    track: Track,
    rejection: Rejection,
    /// The platform's message.
    words: String,
}

impl PlaceQueue {
    /// Returns the queue of this kind.
    pub(super) fn line(&mut self, track: Track) -> &mut Line {
        match track {
            Track::Posts => &mut self.posts,
            Track::Edits => &mut self.edits,
        }
    }

    /// True if no answer is queued or in flight here, and the place permits drafts.
    pub(super) fn is_free(&mut self, track: Track, now: Instant) -> bool {
        let (open, stuck) = (self.closed.is_none(), self.beside.stuck);
        let may = self.pace.lock().may_draft(track, now);
        let line = self.line(track);
        open && may && !stuck && line.out.is_none() && line.jobs.is_empty()
    }

    /// True if a courier may leave from this queue. Only one courier probes a closed place.
    fn may_send(&mut self, track: Track, now: Instant) -> bool {
        let probe = match &self.closed {
            None => true,
            Some(closed) if now < closed.until => false,
            Some(_) => self.line(track.other()).out.is_none(),
        };
        probe && !self.beside.stuck && self.line(track).out.is_none()
    }

    /// True if the place has no jobs and no state to keep.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let lines = [&self.posts, &self.edits];
        let closed = self.closed.as_ref().is_some_and(|closed| closed.until > now);
        let idle = lines.iter().all(|line| line.out.is_none() && line.jobs.is_empty()) && self.beside.is_empty();
        idle && !closed && self.pace.lock().is_over(now)
    }

    /// Removes the jobs of this turn. A courier in flight continues.
    pub(super) fn take(&mut self, turn: &TurnId) -> Vec<Job> {
        let is_it = |task: &Task| matches!(task, Task::Turn(waiting) if waiting == turn);
        let mut taken = Vec::new();
        for jobs in [&mut self.posts.jobs, &mut self.edits.jobs] {
            taken.extend(job::take_out(jobs, is_it));
        }
        taken.extend(self.beside.take(is_it));
        taken
    }

    fn holds(&self, task: &Task) -> bool {
        let lines = [&self.posts, &self.edits];
        lines.iter().any(|line| line.out.as_ref() == Some(task) || line.jobs.iter().any(|job| job.task == *task))
            || self.beside.holds(task)
    }
}

impl Outbox {
    pub(super) fn enqueue(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place, mut job: Job) {
        if layout::longer_than(&job.outgoing.text(), SHORT_MESSAGES * self.poster.capabilities().text_limit) {
            job.length = Length::Long;
        }
        let queue = state.lanes.entry(place.clone()).or_default();
        if queue.holds(&job.task) {
            // The answer is already in flight.
        } else if job.goes_beside() {
            // An earlier process met the refusals.
            queue.beside.add(job);
            Self::sweep_after(ctx, state, place, Duration::ZERO);
        } else {
            // A draft edit in flight precedes the edit that finishes the draft.
            let begun = matches!(&job.task, Task::Turn(turn) if state.drafts.is_shown(place, turn));
            let track = if begun { Track::Edits } else { Track::Posts };
            queue.line(track).jobs.push_back(job);
        }
        self.send_couriers(ctx, state, place);
    }

    /// Sends couriers with the next jobs of a place's queues, unless they are in flight.
    pub(super) fn send_couriers(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place) {
        for track in [Track::Edits, Track::Posts] {
            self.send_courier(ctx, state, place, track);
        }
        if state.lanes.get(place).is_some_and(|queue| queue.is_idle(Instant::now())) {
            state.lanes.remove(place);
        }
    }

    fn send_courier(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place, track: Track) {
        while let Some(queue) = state.lanes.get_mut(place)
            && queue.may_send(track, Instant::now())
            && let Some(mut job) = job::take_next(&mut queue.line(track).jobs)
        {
            if let Task::Turn(turn) = &job.task {
                job.drawn = state.drafts.remove(place, turn).or(job.drawn);
                if job.check && job.outgoing.reply_to.is_none() {
                    job.others.extend(state.alone.of_others(turn));
                    // The job may have been in flight before.
                    job.others.sort_unstable();
                    job.others.dedup();
                }
            }
            if track == Track::Posts && job.begins_with_edits() {
                queue.edits.jobs.push_back(job);
                self.send_courier(ctx, state, place, Track::Edits);
                continue;
            }
            queue.line(track).out = Some(job.task.clone());
            let patience = queue.beside.patience();
            let courier = Courier { patience: Some(patience), ..self.courier(queue.pace.clone()) };
            Self::send(ctx, place, courier, job, Some(track));
        }
    }

    /// Sends a courier with an answer, from this queue or beside all queues.
    pub(super) fn send(
        ctx: &mut ActorContext<Outbox>,
        place: &Place,
        courier: Courier,
        job: Job,
        track: Option<Track>,
    ) {
        let spare = job.clone();
        let (there, back) = (place.clone(), place.clone());
        let deliver = async move { OutboxEvent::CourierReturned(there, Box::new(courier.deliver(job, track).await)) };
        ctx.task(deliver, move |panic| {
            OutboxEvent::CourierReturned(back, Box::new(Returned::panicked(spare, track, panic)))
        });
    }

    pub(super) fn courier_returned(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        place: &Place,
        returned: Returned,
    ) {
        let track = returned.track;
        let queue = state.lanes.entry(place.clone()).or_default();
        match track {
            Some(track) => queue.line(track).out = None,
            None => queue.beside.returned(),
        }
        if let Some(returned) = self.unless_withdrawn(ctx, state, place, returned) {
            self.ended(ctx, state, place, returned);
        }
        if track.is_none() {
            self.sweep_on(ctx, state, place);
        }
        self.send_couriers(ctx, state, place);
    }

    fn ended(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place, returned: Returned) {
        let Returned { mut job, track, end } = returned;
        let queue = state.lanes.entry(place.clone()).or_default();
        match end {
            End::Posted(delivery) => {
                self.opened(state, place);
                self.taken(state, place);
                if let (Task::Turn(turn), None) = (&job.task, &job.outgoing.reply_to) {
                    state.alone.note(turn, &delivery.posted);
                }
                self.report(state, job.task, Ok(delivery));
            }
            End::TriggerGone => {
                self.opened(state, place);
                if let Task::Turn(turn) = job.task {
                    // If the journal refuses this, it delivers the answer again, and the result repeats.
                    self.journal.tell(JournalMsg::Cancel(turn));
                }
            }
            // The store reports this to the journal.
            End::Fenced => {}
            End::EditsOnly => queue.posts.jobs.push_front(job),
            End::Failed(reason) => {
                self.opened(state, place);
                self.report(state, job.task, Err(reason));
            }
            End::Refused(reason) => self.refused(ctx, state, place, (job, track), reason),
            End::Closed(rejection, words) => {
                let track = track.unwrap_or(Track::Posts);
                self.closed_again(ctx, state, place, ClosedJob { job, track, rejection, words });
            }
            End::Panicked(reason) if !job.panicked => {
                tracing::error!(event = OUTBOX_RETRIED, place = %place, reason, "a courier panicked");
                job.panicked = true;
                queue.posts.jobs.push_front(job);
            }
            End::Panicked(panic) => {
                self.report(state, job.task, Err(Unposted::Panicked(panic)));
            }
        }
    }

    /// Closes a place. Its queued answers wait for some seconds, and fail if that does not help.
    fn closed_again(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place, closed: ClosedJob) {
        let ClosedJob { job, track, rejection, words } = closed;
        let Some(queue) = state.lanes.get_mut(place) else { return };
        let refusals = queue.closed.take().map_or(0, |closed| closed.refusals) + 1;
        let until = Instant::now() + CLOSED_FOR;
        tracing::warn!(event = OUTBOX_CLOSED, place = %place, reason = format!("{rejection}: {words}"), refusals, "a place is closed to us");
        queue.closed = Some(Closed { until, refusals });
        queue.line(track).jobs.push_front(job);
        self.closed.close(place, until);
        if rejection == Rejection::PlaceGone || refusals >= PROBES_MAX {
            let waiting = queue.edits.jobs.drain(..).chain(queue.posts.jobs.drain(..));
            let jobs: Vec<Job> = waiting.chain(queue.beside.drain()).collect();
            for job in jobs {
                self.report(state, job.task, Err(Unposted::Rejected(rejection, words.clone())));
            }
        }
        ctx.after(CLOSED_FOR, OutboxEvent::Probe(place.clone()));
    }

    /// Marks a place as open, as far as is known.
    fn opened(&self, state: &mut OutboxState, place: &Place) {
        if state.lanes.get_mut(place).is_some_and(|queue| queue.closed.take().is_some()) {
            self.closed.open(place);
        }
    }

    /// Removes the closures there, because our permissions may have changed. Places whose community is unknown count.
    pub(super) fn access_changed(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        changed: &AccessScope,
    ) {
        let concerns = |place: &Place| match changed {
            AccessScope::Place(changed) => changed == place,
            AccessScope::Community(changed) => self.poster.community(place).is_none_or(|of| of == *changed),
        };
        state.mute.retain(|(place, _), _| !concerns(place));
        let closed =
            |(place, queue): (&Place, &PlaceQueue)| (queue.closed.is_some() && concerns(place)).then(|| place.clone());
        let reopened: Vec<Place> = state.lanes.iter().filter_map(closed).collect();
        for place in reopened {
            self.opened(state, &place);
            self.send_couriers(ctx, state, &place);
        }
    }

    pub(super) fn report(&self, state: &mut OutboxState, task: Task, result: Result<Delivery, Unposted>) {
        // If the journal refuses this, it offers the answer again, and the channel is read before any post.
        match (task, result) {
            (Task::Turn(turn), Ok(delivery)) => self.journal.tell(JournalMsg::Delivered(turn, delivery)),
            (Task::Turn(turn), Err(reason)) => self.journal.tell(JournalMsg::Undeliverable(turn, reason)),
            (Task::Post(name), result) => {
                if let Some(reply) = state.posts.remove(&name) {
                    // The caller may have stopped waiting.
                    let _ = reply.send(result);
                }
            }
            // The journal does not track drafts, nor notices.
            (Task::Draft(_), _) | (Task::Notice(_), Ok(_)) => {}
            (Task::Notice(about), Err(reason)) => {
                tracing::warn!(event = OUTBOX_REFUSED, about = %about, %reason, "a notice could not be posted");
            }
        }
    }
}
