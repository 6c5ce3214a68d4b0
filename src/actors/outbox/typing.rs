//! Who is shown to be typing, and where.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Outbox, OutboxMsg, OutboxState};
use crate::actors::supervisor::Me;
use crate::domain::ids::{Place, TurnId};
use crate::ports::{PostError, PostRequest};

/// How many of a second's requests typing leaves free for answers.
pub(super) const TYPING_SPARES: u32 = 20;

impl Outbox {
    /// Shows typing once, if that takes nothing from answers.
    pub(super) fn show_typing(&self, me: &mut Me<OutboxMsg>, place: Place) {
        if !self.pacer.lock().try_reserve(Instant::now(), TYPING_SPARES) {
            return;
        }
        let poster = Arc::clone(&self.poster);
        let pacer = Arc::clone(&self.pacer);
        let handle = me.handle().clone();
        me.background(async move {
            match poster.perform(&PostRequest::Typing { place: place.clone() }).await {
                Err(PostError::Refused { status, .. }) => {
                    pacer.lock().refused(Instant::now(), status);
                    let _ = handle.cast(OutboxMsg::TypingRefused(place));
                }
                Err(PostError::RateLimited { retry_after, global }) => {
                    pacer.lock().limited(Instant::now(), retry_after, global);
                }
                // Typing is worth no second try.
                Ok(_) | Err(PostError::Transient(_) | PostError::NoReply(_)) => {}
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
