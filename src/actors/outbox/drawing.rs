//! How a courier shows a draft: one attempt, no retries. The next sample is a better second try than the same text once more.

use tokio::time::Instant;

use super::courier::{Courier, Pace, Task};
use super::drafts::{Drawn, Step};
use super::found::Shown;
use super::pacer::{Slot, WAIT_MAX};
use crate::domain::draft;
use crate::domain::ids::{Place, TurnId};
use crate::domain::outgoing::Piece;
use crate::ports::{PostError, PostRequest, PostResult};

/// How a courier comes back from a draft.
pub struct Drew {
    pub(super) place: Place,
    pub(super) turn: TurnId,
    pub(super) drawn: Drawn,
    pub(super) pace: Pace,
}

impl Courier {
    /// Shows what there is of an unfinished answer: by a message of its own at first, by edits of that one later. The slot is
    /// for that one request.
    pub(super) async fn draw(mut self, step: Step, slot: Slot) -> Drew {
        let Step { turn, place, reply_to, text, mut drawn } = step;
        if let Some(text) = draft::draft(&text, self.poster.capabilities().text_limit) {
            if drawn.doubtful && !self.look_for(&place, &turn, &mut drawn).await {
                return Drew { place, turn, drawn, pace: self.pace };
            }
            let place = place.clone();
            let request = match drawn.message.clone() {
                Some(message) => PostRequest::Edit { place, message, piece: Piece::text(&text) },
                None => PostRequest::Create {
                    place,
                    piece: Piece::text(&text),
                    reply_to,
                    nonce: Task::Draft(turn.clone()).nonce(0),
                },
            };
            if drawn.text != text {
                self.show(&request, text, &mut drawn).await;
            }
        }
        drop(slot);
        Drew { place, turn, drawn, pace: self.pace }
    }

    async fn show(&mut self, request: &PostRequest, text: String, drawn: &mut Drawn) {
        let result = self.attempt(request).await;
        let now = Instant::now();
        self.pace.drawn_at = Some(now);
        match result {
            Ok(PostResult::Message(message)) => {
                drawn.first_visible.get_or_insert(now);
                // The nonce may have brought back an older draft.
                drawn.text = if drawn.doubtful { String::new() } else { text };
                drawn.message = Some(message);
                drawn.doubtful = false;
            }
            Err(PostError::RateLimited { retry_after, .. }) => {
                // The answer itself would meet the same limit.
                self.pace.left = Some((0, now + retry_after.min(WAIT_MAX)));
            }
            Err(PostError::Refused { .. } | PostError::NoReply(_)) => drawn.over = true,
            // It may have worked, and only its answer was lost.
            Ok(_) | Err(PostError::Transient(_)) => {
                drawn.text.clear();
                drawn.doubtful = drawn.message.is_none();
            }
        }
    }

    /// Looks for a draft whose message is not known; false when the channel cannot be read. What is not there may be posted:
    /// if it comes to light all the same, the platform knows its nonce.
    async fn look_for(&mut self, place: &Place, turn: &TurnId, drawn: &mut Drawn) -> bool {
        self.pace.drawn_at = Some(Instant::now());
        let Ok(found) = self.find(place, Some(&turn.trigger()), &[], Instant::now()).await else {
            return false;
        };
        if let Some(Shown { message, text, .. }) = found.pieces.into_iter().next() {
            *drawn = Drawn { message: Some(message), text, doubtful: false, ..drawn.clone() };
            drawn.first_visible.get_or_insert_with(Instant::now);
        }
        true
    }
}
