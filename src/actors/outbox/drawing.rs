//! How drafts are shown. The outbox samples their slots and sends a courier with each change, which makes one attempt: the next
//! sample is a better second try than the same text once more.

use tokio::time::Instant;

use super::courier::Courier;
use super::drafts::{Drawn, Step};
use super::found::Shown;
use super::job::Task;
use super::pace::{Pace, WAIT_MAX};
use super::pacer::Slot;
use super::{Outbox, OutboxEvent, OutboxState};
use crate::actors::supervisor::ActorContext;
use crate::domain::draft;
use crate::domain::ids::{Place, TurnId};
use crate::domain::outgoing::Piece;
use crate::ports::{PostError, PostRequest, PostResult};

/// How many of a second's requests drafts leave free for answers.
const DRAFT_SPARES: u32 = 10;

/// How a courier comes back from a draft.
pub struct Drew {
    pub(super) place: Place,
    pub(super) turn: TurnId,
    pub(super) drawn: Drawn,
    pub(super) pace: Pace,
}

impl Outbox {
    /// Sends couriers with drafts, place after place, as long as the budget leaves room for answers.
    pub(super) fn sample(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState) {
        let now = Instant::now();
        for _ in 0..state.drafts.places() {
            let Some(place) = state.drafts.next_place() else { return };
            let queue = state.lanes.entry(place.clone()).or_default();
            let edit = queue.pace.may_edit(now);
            if !queue.is_free(now) || !state.drafts.is_due(&place, edit) {
                continue;
            }
            let Some(slot) = Slot::try_take(&self.pacer, DRAFT_SPARES) else {
                state.drafts.put_back();
                return;
            };
            let Some(step) = state.drafts.take_step(&place, edit) else { continue };
            queue.out = Some(Task::Draft(step.turn.clone()));
            let (courier, pace) = (self.courier(queue.pace), queue.pace);
            let (turn, drawn) = (step.turn.clone(), Drawn { text: String::new(), ..step.drawn.clone() });
            let lost = Drawn { doubtful: drawn.message.is_none(), ..drawn };
            ctx.task(async move { OutboxEvent::Drew(courier.draw(step, slot).await) }, move |panic| {
                tracing::error!(event = "outbox.refused", turn = %turn, panic, "the courier of a draft panicked");
                OutboxEvent::Drew(Drew { place, turn, drawn: lost, pace })
            });
        }
    }

    pub(super) fn drew(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, drew: Drew) {
        let Drew { place, turn, drawn, pace } = drew;
        if drawn.message.is_some() {
            // Whoever can read along needs no sign that we are typing.
            state.quiet(&place, &turn);
        }
        if let Some(queue) = state.lanes.get_mut(&place) {
            queue.out = None;
            queue.pace = pace;
        }
        state.drafts.drew(&place, &turn, drawn);
        self.send_courier(ctx, state, place);
        self.sample(ctx, state);
    }
}

impl Courier {
    /// Shows what there is of an unfinished answer: by a message of its own at first, by edits of that one later. The slot is
    /// for that one request.
    pub(super) async fn draw(mut self, step: Step, mut slot: Slot) -> Drew {
        let Step { turn, place, reply_to, text, mut drawn } = step;
        if let Some(text) = draft::draft(&text, self.poster.capabilities().text_limit).into_iter().next() {
            if drawn.doubtful {
                if !self.look_for(&place, &turn, &mut drawn).await {
                    return Drew { place, turn, drawn, pace: self.pace };
                }
                // Looking may have taken longer than a slot lasts.
                slot = Slot::take(&self.pacer).await;
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
            Err(PostError::Limited { retry_after, .. }) => {
                // The answer itself would meet the same limit.
                self.pace.left = Some((0, now + retry_after.min(WAIT_MAX)));
            }
            Err(PostError::Rejected { .. }) => drawn.over = true,
            // The message stands as it is.
            Err(PostError::Transient(_)) => {}
            Ok(_) | Err(PostError::Unsure(_)) => {
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
