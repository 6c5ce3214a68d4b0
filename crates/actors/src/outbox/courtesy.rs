//! What is shown beside answers and never at their cost: one attempt each, and only while the budget leaves room.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::pace::WAIT_MAX;
use super::pacer::Slot;
use super::queue::CLOSED_FOR;
use super::{Outbox, OutboxEvent, OutboxState};
use crate::runtime::supervisor::ActorContext;
use domain::ids::Place;
use domain::rejection::Rejection;
use ports::{PostError, PostRequest};

/// How many of a second's requests courtesies leave free for answers.
pub(super) const SPARES: u32 = 20;
/// How long no reaction is tried in a place that refused one: it takes a permission of its own, which few give within minutes.
const NO_REACTION_FOR: Duration = Duration::from_secs(600);

/// A kind of request that nobody misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Courtesy {
    /// That we are typing.
    Typing,
    /// A reaction to a message.
    Reaction,
}

impl Courtesy {
    const fn refused_for(self) -> Duration {
        match self {
            Self::Typing => CLOSED_FOR,
            Self::Reaction => NO_REACTION_FOR,
        }
    }
}

impl Outbox {
    /// Shows it once, if the place lets us and that takes nothing from answers.
    pub(super) fn show(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &OutboxState,
        courtesy: Courtesy,
        place: Place,
        request: PostRequest,
    ) {
        let key = (place, courtesy);
        if state.mute.get(&key).is_some_and(|until| *until > Instant::now()) {
            return;
        }
        let Some(slot) = Slot::try_take(&self.pacer, SPARES) else { return };
        let poster = Arc::clone(&self.poster);
        let pacer = Arc::clone(&self.pacer);
        let events = ctx.events();
        ctx.background(async move {
            let answer = poster.perform(&request).await;
            drop(slot);
            let now = Instant::now();
            let pause = match answer {
                Ok(reply) => reply.bucket.filter(|bucket| bucket.remaining == 0).map(|bucket| bucket.reset_after),
                Err(PostError::Rejected { reason, .. }) => {
                    pacer.lock().rejected(now, reason);
                    (reason != Rejection::MessageGone).then(|| courtesy.refused_for())
                }
                Err(PostError::Limited { retry_after, global }) => {
                    pacer.lock().limited(now, retry_after, global);
                    Some(retry_after)
                }
                // It is worth no second try.
                Err(PostError::Transient(_) | PostError::Unsure(_)) => None,
            };
            if let Some(pause) = pause {
                // An outbox that begins anew learns it again.
                events.tell(OutboxEvent::Muted(key.0, courtesy, now + pause.min(WAIT_MAX)));
            }
        });
    }
}
