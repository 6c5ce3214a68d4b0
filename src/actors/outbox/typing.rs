//! Who is shown to be typing, and where.

use std::sync::Arc;

use tokio::time::Instant;

use super::pace::WAIT_MAX;
use super::pacer::Slot;
use super::queue::CLOSED_FOR;
use super::{Outbox, OutboxEvent, OutboxState};
use crate::actors::supervisor::ActorContext;
use crate::domain::ids::{Place, TurnId};
use crate::ports::{PostError, PostRequest};

/// How many of a second's requests typing leaves free for answers.
pub(super) const TYPING_SPARES: u32 = 20;

impl Outbox {
    /// Shows typing once, if the place lets us and that takes nothing from answers.
    pub(super) fn show_typing(&self, ctx: &mut ActorContext<Outbox>, state: &OutboxState, place: Place) {
        if state.mute.get(&place).is_some_and(|until| *until > Instant::now()) {
            return;
        }
        let Some(slot) = Slot::try_take(&self.pacer, TYPING_SPARES) else { return };
        let poster = Arc::clone(&self.poster);
        let pacer = Arc::clone(&self.pacer);
        let events = ctx.events();
        ctx.background(async move {
            let answer = poster.perform(&PostRequest::Typing { place: place.clone() }).await;
            drop(slot);
            let now = Instant::now();
            let pause = match answer {
                Ok(reply) => reply.bucket.filter(|bucket| bucket.remaining == 0).map(|bucket| bucket.reset_after),
                Err(PostError::Rejected { reason, .. }) => {
                    pacer.lock().rejected(now, reason);
                    Some(CLOSED_FOR)
                }
                Err(PostError::Limited { retry_after, global }) => {
                    pacer.lock().limited(now, retry_after, global);
                    Some(retry_after)
                }
                // Typing is worth no second try.
                Err(PostError::Transient(_) | PostError::Unsure(_)) => None,
            };
            if let Some(pause) = pause {
                // An outbox that begins anew learns it again.
                let _ = events.send(OutboxEvent::NoTyping(place, now + pause.min(WAIT_MAX)));
            }
        });
    }
}

impl OutboxState {
    /// A turn thinks no more.
    pub(super) fn quiet(&mut self, place: &Place, turn: &TurnId) {
        if let Some(turns) = self.typing.get_mut(place) {
            turns.remove(turn);
            if turns.is_empty() {
                self.typing.remove(place);
            }
        }
    }

    /// The places where a turn still thinks.
    pub(super) fn still_typing(&mut self, now: Instant) -> Vec<Place> {
        for turns in self.typing.values_mut() {
            turns.retain(|_, until| *until > now);
        }
        self.typing.retain(|_, turns| !turns.is_empty());
        self.typing.keys().cloned().collect()
    }
}
