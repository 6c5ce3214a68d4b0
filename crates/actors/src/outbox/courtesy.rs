//! Requests with lower priority than answers: one attempt each, and only while the budget has room.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::pace::WAIT_MAX;
use super::pacer::{Payer, Slot};
use super::queue::CLOSED_FOR;
use super::{Outbox, OutboxEvent, OutboxState};
use crate::runtime::supervisor::ActorContext;
use domain::ids::Place;
use domain::rejection::Rejection;
use ports::{PostError, PostRequest};

/// The requests per second that courtesies leave free for answers.
pub(super) const SPARES: u32 = 20;
/// The time without reactions in a place that refused one. Reactions require a separate permission, which is rarely
/// granted within minutes.
const NO_REACTION_FOR: Duration = Duration::from_secs(600);

/// A kind of request that may be skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Courtesy {
    /// A typing indicator.
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
    /// Sends a courtesy in one attempt, if it is not muted in the place and the budget has room.
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
        let payer = || Payer::of(&*self.poster, &request);
        let Some(slot) = Slot::try_take(&self.pacer, SPARES, payer) else { return };
        let poster = Arc::clone(&self.poster);
        let pacer = Arc::clone(&self.pacer);
        let events = ctx.events();
        ctx.background(async move {
            let answer = poster.perform(&request).await;
            drop(slot);
            let now = Instant::now();
            if let Err(error) = &answer {
                pacer.lock().failed(now, error, || Payer::of(&*poster, &request));
            }
            let pause = match answer {
                Ok(reply) => reply.bucket.filter(|bucket| bucket.remaining == 0).map(|bucket| bucket.reset_after),
                Err(PostError::Rejected { reason, .. }) => match reason {
                    Rejection::MessageGone => None,
                    // It concerns this message, such as one by a member who blocked the bot, and not the place.
                    Rejection::Content | Rejection::Reply => Some(CLOSED_FOR),
                    Rejection::PlaceGone | Rejection::Forbidden | Rejection::Credentials | Rejection::Unexplained => {
                        Some(courtesy.refused_for())
                    }
                },
                // A limit without a delay would be met again at once.
                Err(error @ PostError::Limited { .. }) => Some(error.pause(CLOSED_FOR)),
                // The request is not worth a second try.
                Err(PostError::Transient(_) | PostError::Unsure(_)) => None,
            };
            if let Some(pause) = pause {
                // A restarted outbox learns the mute again.
                events.tell(OutboxEvent::Muted(key.0, courtesy, now + pause.min(WAIT_MAX)));
            }
        });
    }
}
