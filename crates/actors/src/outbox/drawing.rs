//! Posting of drafts. The outbox samples the draft slots and sends a courier with each change. The courier makes one
//! attempt, because the next sample is better than a retry of the same text. A full draft continues in a further
//! message.

use tokio::time::Instant;

use super::courier::{Courier, LAID_OUT_HERE};
use super::drafts::{Drawn, Origin, Room, Step};
use super::found::{Anchor, VisiblePiece};
use super::job::Task;
use super::pace::Track;
use super::pacer::{Payer, Slot};
use super::{Outbox, OutboxEvent, OutboxState};
use crate::runtime::blocking::blocking_if;
use crate::runtime::supervisor::ActorContext;
use domain::draft;
use domain::happening::Happening;
use domain::ids::{MessageId, Place, TurnId};
use domain::outgoing::Piece;
use domain::rejection::Rejection;
use ports::{PostError, PostRequest, PostResult};
use telemetry::events::OUTBOX_REFUSED;

/// The requests per second that drafts leave free for answers.
pub(super) const DRAFT_SPARES: u32 = 10;
/// The fewest Unicode scalar values for which a draft begins a further message.
const FURTHER_MIN: usize = 80;

/// The return of a courier with a draft.
pub struct DraftReturn {
    pub(super) place: Place,
    pub(super) turn: TurnId,
    pub(super) track: Track,
    pub(super) drawn: Drawn,
}

/// A draft with the text to show.
struct DraftView<'a> {
    place: &'a Place,
    turn: &'a TurnId,
    reply_to: Option<MessageId>,
    pieces: &'a [String],
    drawn: &'a mut Drawn,
}

/// The next change of a draft.
enum Change {
    /// An edit of the message of this index.
    Edit(usize, MessageId),
    /// A new message of this index.
    Create(usize),
}

impl Outbox {
    /// Sends couriers with drafts, place by place, while the budget leaves room for answers.
    pub(super) fn sample(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState) {
        state.drafts.begin_round();
        for _ in 0..state.drafts.places() {
            let Some(place) = state.drafts.next_place() else { return };
            if !self.sample_place(ctx, state, &place) {
                state.drafts.put_back();
                return;
            }
        }
    }

    /// Sends a courier with the draft of a changed place, unless other places are waiting for the budget.
    pub(super) fn sample_changed(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place) {
        if !state.drafts.is_short() {
            // Without room in the budget, the draft is shown in its turn.
            self.sample_place(ctx, state, place);
        }
    }

    /// Returns false if the place has a draft to show and the budget has no room for it.
    fn sample_place(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState, place: &Place) -> bool {
        let now = Instant::now();
        let running = self.live.now();
        let queue = state.lanes.entry(place.clone()).or_default();
        let redraw = queue.pace.lock().may_redraw(now);
        let (posts, edits) = (queue.is_free(Track::Posts, now), queue.is_free(Track::Edits, now));
        let room = Room { now, posts, edits, redraw, hold: &running.settings.streaming };
        let Some(track) = state.drafts.due(place, room) else { return true };
        let Some(slot) = Slot::try_take(&self.pacer, DRAFT_SPARES, || Some(Payer::at(&*self.poster, place))) else {
            return false;
        };
        // The poster shares the platform's limits fairly among places: this place does not stop the others.
        if track == Track::Edits && !self.poster.admits_draft(place) {
            return true;
        }
        let Some(step) = state.drafts.take_step(place, room) else { return true };
        let track = step.track;
        queue.line(track).out = Some(Task::Draft(step.turn.clone()));
        let courier = self.courier(queue.pace.clone());
        let (turn, place, lost) = (step.turn.clone(), place.clone(), step.drawn.clone().unknown());
        ctx.task(async move { OutboxEvent::DraftReturned(courier.draw(step, slot).await) }, move |panic| {
            tracing::error!(event = OUTBOX_REFUSED, turn = %turn, panic, "the courier of a draft panicked");
            OutboxEvent::DraftReturned(DraftReturn { place, turn, track, drawn: lost })
        });
        true
    }

    pub(super) fn draft_returned(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        returned: DraftReturn,
    ) {
        let DraftReturn { place, turn, track, drawn } = returned;
        let withdrawn = self.drew_withdrawn(ctx, state, &place, &turn, &drawn);
        if !drawn.shown.is_empty() && !withdrawn {
            // A visible draft replaces the typing indicator.
            state.quiet(&place, &turn);
            self.observers.tell(&Happening::AnswerSeen(&turn));
        }
        if let Some(queue) = state.lanes.get_mut(&place) {
            queue.line(track).out = None;
        }
        state.drafts.drew(&place, &turn, drawn);
        self.send_couriers(ctx, state, &place);
        self.sample_changed(ctx, state, &place);
    }
}

impl Courier {
    /// Shows the present text of an unfinished answer, first by new messages, later by edits. The slot is for this one
    /// request.
    pub(super) async fn draw(mut self, step: Step, mut slot: Slot) -> DraftReturn {
        let Step { turn, place, reply_to, text, mut drawn, track } = step;
        let limit = self.poster.capabilities().text_limit;
        let pieces = blocking_if(text.len() > LAID_OUT_HERE, move || draft::draft(&text, limit)).await;
        let continues = matches!(next_change(&drawn, &pieces), Some(Change::Create(index)) if index > 0);
        if (drawn.doubtful || (drawn.origin == Origin::EarlierOutbox && continues)) && !pieces.is_empty() {
            if !self.look_for(&place, &turn, &pieces, &mut drawn).await {
                drawn.behind = true;
                return DraftReturn { place, turn, track, drawn };
            }
            // The search may have taken longer than a slot lasts.
            slot = Slot::take(&self.pacer, || Some(Payer::at(&*self.poster, &place))).await;
        }
        if let Some(change) = next_change(&drawn, &pieces) {
            let draft = DraftView { place: &place, turn: &turn, reply_to, pieces: &pieces, drawn: &mut drawn };
            self.show(draft, change).await;
        }
        drawn.behind = next_change(&drawn, &pieces).is_some();
        drop(slot);
        DraftReturn { place, turn, track, drawn }
    }

    async fn show(&mut self, draft: DraftView<'_>, change: Change) {
        let DraftView { place, turn, reply_to, pieces, drawn } = draft;
        let now = Instant::now();
        let (index, request) = match change {
            Change::Edit(index, message) => {
                let piece = Piece::draft(&pieces[index]);
                (index, PostRequest::Edit { place: place.clone(), message, piece })
            }
            // A further message leaves the last requests of the bucket to answers, like the first message.
            Change::Create(index) if index > 0 && !self.pace.lock().may_draft(Track::Posts, now) => return,
            Change::Create(index) => {
                let reply_to = reply_to.filter(|_| index == 0);
                let nonce = Task::Draft(turn.clone()).nonce(index, false);
                (
                    index,
                    PostRequest::Create { place: place.clone(), piece: Piece::draft(&pieces[index]), reply_to, nonce },
                )
            }
        };
        let result = self.attempt(&request).await;
        let now = Instant::now();
        self.pace.lock().changed(now);
        let known = drawn.shown.get_mut(index);
        match (result, known) {
            (Ok(PostResult::Message(_)), Some(shown)) => shown.text.clone_from(&pieces[index]),
            (Ok(PostResult::Message(message)), None) => {
                drawn.first_visible.get_or_insert(now);
                // The nonce may have returned an older draft.
                let text = if drawn.doubtful { String::new() } else { pieces[index].clone() };
                drawn.shown.push(VisiblePiece::draft(message, text));
                drawn.doubtful = false;
            }
            // The message was removed on purpose: only the complete answer is posted again.
            (Err(PostError::Rejected { reason: Rejection::MessageGone, .. }), Some(shown)) => shown.gone = true,
            (Err(PostError::Rejected { .. }), _) => drawn.over = true,
            // The message is unchanged.
            (Err(PostError::Limited { .. } | PostError::Transient(_)), _) => {}
            (Ok(_) | Err(PostError::Unsure(_)), Some(shown)) => shown.text.clear(),
            (Ok(_) | Err(PostError::Unsure(_)), None) => drawn.doubtful = true,
        }
    }

    /// Searches for unknown messages of a draft; returns false if the channel cannot be read. Missing messages may be
    /// posted: if such a message exists after all, the platform recognises its nonce.
    async fn look_for(&mut self, place: &Place, turn: &TurnId, pieces: &[String], drawn: &mut Drawn) -> bool {
        self.pace.lock().changed(Instant::now());
        let pieces: Vec<Piece> = pieces.iter().map(Piece::text).collect();
        let Ok(found) = self.find(place, Anchor::Growing(&turn.trigger()), &pieces, Instant::now()).await else {
            return false;
        };
        if !found.pieces.is_empty() {
            drawn.doubtful = found.pieces.len() < pieces.len();
            // A message that was removed on purpose stays removed.
            let removed = std::mem::replace(&mut drawn.shown, found.pieces);
            for (shown, before) in drawn.shown.iter_mut().zip(&removed) {
                shown.gone |= before.gone;
            }
            drawn.shown.extend(removed.into_iter().skip(drawn.shown.len()).take_while(|shown| shown.gone));
            drawn.first_visible.get_or_insert_with(Instant::now);
        }
        true
    }
}

/// Returns the first message that does not show its part of the text.
fn next_change(drawn: &Drawn, pieces: &[String]) -> Option<Change> {
    let change = |(index, text): (usize, &String)| match drawn.shown.get(index) {
        Some(shown) if shown.gone || shown.text == *text => None,
        Some(shown) => Some(Change::Edit(index, shown.message.clone())),
        None if index == 0 || text.chars().nth(FURTHER_MIN - 1).is_some() => Some(Change::Create(index)),
        None => None,
    };
    if drawn.over { None } else { pieces.iter().enumerate().find_map(change) }
}
