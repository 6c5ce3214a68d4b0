//! The queue of a place: what waits to be posted there, the one courier that is out, and what it comes back with.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::job::{Job, Returned, Task};
use super::pace::Pace;
use super::{Outbox, OutboxEvent, OutboxState};
use crate::actors::messages::journal::JournalMsg;
use crate::actors::messages::outbox::Delivery;
use crate::actors::supervisor::ActorContext;
use crate::domain::ids::Place;

/// How long a place that refused us (gone, forbidden) is left alone.
pub(super) const CLOSED_FOR: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct PlaceQueue {
    pub jobs: VecDeque<Job>,
    /// The turn that a courier is posting now, if one is out.
    pub out: Option<Task>,
    /// What the place allows.
    pub pace: Pace,
    /// The platform refused us here; jobs fail at once until then.
    pub closed: Option<(Instant, String)>,
}

impl PlaceQueue {
    /// No answer is on its way or waits, and the place lets drafts through.
    pub(super) fn is_free(&self, now: Instant) -> bool {
        let open = self.closed.as_ref().is_none_or(|(until, _)| *until <= now);
        self.out.is_none() && self.jobs.is_empty() && open && self.pace.may_draft(now)
    }
}

impl Outbox {
    pub(super) fn enqueue(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: Place, job: Job) {
        let queue = state.lanes.entry(place.clone()).or_default();
        let known = queue.out.as_ref() == Some(&job.task) || queue.jobs.iter().any(|waiting| waiting.task == job.task);
        if !known {
            queue.jobs.push_back(job);
        }
        self.send_courier(ctx, state, place);
    }

    /// Sends a courier with the head of a place's queue, unless one is out.
    pub(super) fn send_courier(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: Place) {
        let Some(queue) = state.lanes.get_mut(&place) else { return };
        if queue.out.is_some() {
            return;
        }
        let now = Instant::now();
        if let Some((until, reason)) = &queue.closed {
            if now < *until {
                let reason = reason.clone();
                for job in std::mem::take(&mut queue.jobs) {
                    self.report(state, job.task, Err(reason.clone()));
                }
                return;
            }
            queue.closed = None;
        }
        let Some(mut job) = queue.jobs.pop_front() else {
            if queue.pace.is_over(now) {
                state.lanes.remove(&place);
            }
            return;
        };
        if let Task::Turn(turn) = &job.task {
            job.drawn = state.drafts.remove(&place, turn).or(job.drawn);
        }
        queue.out = Some(job.task.clone());
        let courier = self.courier(queue.pace);
        let spare = job.clone();
        let (there, back) = (place.clone(), place);
        ctx.task(async move { OutboxEvent::CourierReturned(there, courier.deliver(job).await) }, move |panic| {
            OutboxEvent::CourierReturned(back, Returned::panicked(spare, &panic))
        });
    }

    pub(super) fn courier_returned(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        place: Place,
        returned: Returned,
    ) {
        let Returned { task, result, pace, closed, again } = returned;
        if let Some(queue) = state.lanes.get_mut(&place) {
            queue.out = None;
            queue.pace = pace;
            if closed && let Err(reason) = &result {
                queue.closed = Some((Instant::now() + CLOSED_FOR, reason.clone()));
            }
        }
        match (again, state.lanes.get_mut(&place)) {
            (Some(job), Some(queue)) => {
                tracing::error!(event = "outbox.retried", place = %place, reason = ?result, "a courier panicked");
                queue.jobs.push_front(*job);
            }
            _ => self.report(state, task, result),
        }
        self.send_courier(ctx, state, place);
    }

    fn report(&self, state: &mut OutboxState, task: Task, result: Result<Delivery, String>) {
        // A journal that is down offers the answer again, and the channel is looked at before anything is posted.
        match (task, result) {
            (Task::Turn(turn), Ok(delivery)) => drop(self.journal.cast(JournalMsg::Delivered(turn, delivery))),
            (Task::Turn(turn), Err(reason)) => drop(self.journal.cast(JournalMsg::Undeliverable(turn, reason))),
            (Task::Post(name), result) => {
                if let Some(reply) = state.posts.remove(&name) {
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(result);
                }
            }
            // A draft is reported to nobody.
            (Task::Draft(_), _) => {}
            (Task::Notice(_), Ok(_)) => state.notices = state.notices.saturating_sub(1),
            (Task::Notice(about), Err(reason)) => {
                state.notices = state.notices.saturating_sub(1);
                tracing::warn!(event = "outbox.refused", about = %about, reason, "a notice could not be posted");
            }
        }
    }
}
