//! Withdrawn answers: their question was deleted or the answer stopped, so their posted messages are removed.
//!
//! Each message is removed by a single request with a few tries. Messages that a courier reports later are removed in
//! the same way.

use std::time::Duration;

use tokio::time::Instant;

use super::courier::Courier;
use super::drafts::Drawn;
use super::found::Anchor;
use super::job::{End, Job, Returned, Task};
use super::{Outbox, OutboxState};
use crate::runtime::supervisor::ActorContext;
use domain::ids::{MessageId, Place, TurnId};
use domain::outgoing::Piece;
use ports::{PostError, PostRequest};
use telemetry::events::OUTBOX_REFUSED;

/// The most tries to remove one message.
const TRIES: u32 = 5;
/// The timeout of the search for unknown messages.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// The messages of an answer that may exist.
#[derive(Default)]
struct Remains {
    messages: Vec<MessageId>,
    /// True if further, unknown messages may exist.
    perhaps: bool,
}

impl Remains {
    fn add(&mut self, drawn: Option<Drawn>) {
        if let Some(Drawn { shown, doubtful, .. }) = drawn {
            self.messages.extend(shown.into_iter().map(|shown| shown.message));
            self.perhaps |= doubtful;
        }
    }
}

impl Outbox {
    /// Stops all posts of this turn, and removes the posted messages of its answer. An earlier process may have posted
    /// some of them.
    pub(super) fn withdrawn(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        place: &Place,
        turn: &TurnId,
        perhaps: bool,
    ) {
        state.quiet(place, turn);
        state.withdrawn.insert(turn);
        let mut remains = Remains { messages: Vec::new(), perhaps };
        remains.add(state.drafts.remove(place, turn));
        if let Some(queue) = state.lanes.get_mut(place) {
            for job in queue.take(turn) {
                remains.add(job.drawn);
            }
        }
        self.remove(ctx, place, turn, remains);
    }

    /// Stops all posts of this turn, which another process owns; the posted messages are left for that process.
    pub(super) fn release(state: &mut OutboxState, place: &Place, turn: &TurnId) {
        state.quiet(place, turn);
        state.released.insert(turn);
        drop(state.drafts.remove(place, turn));
        if let Some(queue) = state.lanes.get_mut(place) {
            drop(queue.take(turn));
        }
    }

    /// Handles the return of a courier for a withdrawn or released turn. Returns it unchanged if the turn is neither.
    pub(super) fn unless_withdrawn(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &OutboxState,
        place: &Place,
        returned: Returned,
    ) -> Option<Returned> {
        let Task::Turn(turn) = returned.job.task.clone() else { return Some(returned) };
        if state.released.contains(&turn) {
            return None;
        }
        if !state.withdrawn.contains(&turn) {
            return Some(returned);
        }
        let Job { drawn, .. } = returned.job;
        let mut remains = Remains::default();
        match returned.end {
            End::Posted(delivery) => remains.messages = delivery.posted,
            End::Panicked(_) => remains.perhaps = true,
            _ => remains.add(drawn),
        }
        self.remove(ctx, place, &turn, remains);
        None
    }

    /// Handles a draft shown for a withdrawn or released turn. True if the turn is either.
    pub(super) fn drew_withdrawn(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &OutboxState,
        place: &Place,
        turn: &TurnId,
        drawn: &Drawn,
    ) -> bool {
        if state.released.contains(turn) {
            return true;
        }
        let is_withdrawn = state.withdrawn.contains(turn);
        if is_withdrawn {
            let mut remains = Remains::default();
            remains.add(Some(drawn.clone()));
            self.remove(ctx, place, turn, remains);
        }
        is_withdrawn
    }

    fn remove(&self, ctx: &mut ActorContext<Outbox>, place: &Place, turn: &TurnId, remains: Remains) {
        if remains.messages.is_empty() && !remains.perhaps {
            return;
        }
        let (mut courier, place, turn) = (self.courier(super::SharedPace::default()), place.clone(), turn.clone());
        ctx.background(async move {
            let Remains { mut messages, perhaps } = remains;
            if perhaps {
                let (trigger, until) = (turn.trigger(), Instant::now() + LOOK_TIMEOUT);
                let look = courier.find(&place, Anchor::Trigger(&trigger), &[Piece::default()], until).await;
                let found = look.map(|found| found.pieces).unwrap_or_default();
                messages.extend(found.into_iter().map(|shown| shown.message));
            }
            messages.dedup();
            for message in messages {
                courier.remove(&place, message).await;
            }
        });
    }
}

impl Courier {
    async fn remove(&mut self, place: &Place, message: MessageId) {
        let request = PostRequest::Delete { place: place.clone(), message };
        for attempt in 0..TRIES {
            match self.perform(&request).await {
                Ok(_) | Err(PostError::Rejected { .. }) => return,
                Err(error) => tokio::time::sleep(self.pause(&error, attempt)).await,
            }
        }
        tracing::warn!(event = OUTBOX_REFUSED, place = %place, "a message of a stopped answer could not be removed");
    }
}
