//! A courier: the task that posts one answer, piece by piece, within the platform's budgets and without ever posting twice. An
//! answer whose draft stands in the channel already is finished by edit.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::attempt::PostFailure;
use super::drafts::Drawn;
use super::found::{Anchor, Found, Shown};
use super::job::{End, Job, Returned, Task};
use super::pace::{SharedPace, Track};
use super::pacer::Pacer;
use crate::actors::messages::outbox::{Delivery, NONCE_TRUST};
use crate::domain::draft::DRAFT_MESSAGES_MAX;
use crate::domain::ending::Unposted;
use crate::domain::ids::{MessageId, Place};
use crate::domain::layout::lay_out;
use crate::domain::outgoing::{Capabilities, File, Part, Piece};
use crate::ports::{Dice, PostError, PostRequest, PostResult, Poster, Renderer};

/// How long an answer is tried before it is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

/// Posts one answer, or reads something, within the budgets.
pub(super) struct Courier {
    pub poster: Arc<dyn Poster>,
    pub pacer: Arc<Mutex<Pacer>>,
    pub dice: Arc<dyn Dice>,
    pub renderer: Arc<dyn Renderer>,
    pub pace: SharedPace,
}

/// How far an answer has come.
struct Progress {
    found: Found,
    /// There may be messages of a draft that could not be found.
    doubtful: bool,
    first_visible: Option<Instant>,
}

/// What became of an edit.
enum Edited {
    Done,
    /// The message was removed.
    Gone,
}

impl Courier {
    /// Posts an answer. One that was sent for edits alone comes back when the rest of it is to be posted in its turn.
    pub(super) async fn deliver(mut self, mut job: Job, track: Track) -> Returned {
        let begun = Instant::now();
        let drawn = job.drawn.clone().unwrap_or_default();
        let found = Found { pieces: drawn.shown, doubled: false };
        let mut progress = Progress { found, doubtful: drawn.doubtful, first_visible: drawn.first_visible };
        let result = self.post(&job, track, &mut progress, begun + GIVE_UP_AFTER).await;
        let Progress { found, doubtful, first_visible } = progress;
        let end = match result {
            Ok(()) => {
                let posted = found.pieces.into_iter().map(|shown| shown.message).collect();
                let first_visible = first_visible.unwrap_or(begun);
                return Returned {
                    job,
                    track,
                    end: End::Posted(Delivery { posted, first_visible, doubled: found.doubled }),
                };
            }
            Err(PostFailure::Begun) => {
                job.edited = true;
                End::Begun
            }
            Err(PostFailure::TriggerGone) => End::TriggerGone,
            Err(PostFailure::Place(reason, words)) => End::Closed(reason, words),
            Err(PostFailure::Request(reason) | PostFailure::Extras(reason)) => End::Failed(reason),
        };
        job.drawn = Some(Drawn { shown: found.pieces, doubtful, first_visible, ..Drawn::default() });
        Returned { job, track, end }
    }

    async fn post(
        &mut self,
        job: &Job,
        track: Track,
        progress: &mut Progress,
        until: Instant,
    ) -> Result<(), PostFailure> {
        let door = self.poster.capabilities();
        let mut pieces = lay_out(&self.pictured(&job.outgoing.parts, &door).await, &door);
        if pieces.is_empty() {
            return Err(PostFailure::Request(Unposted::Nothing));
        }
        // While the platform remembers the nonces they decide: words may be those of another answer.
        let check = job.check && job.nonce_until.is_none_or(|until| until <= Instant::now());
        if progress.found.pieces.is_empty() && (check || progress.doubtful) {
            progress.found = self.find(&job.outgoing.place, job.anchor(), &pieces, until).await?;
            if progress.found.pieces.is_empty() && check && self.trigger_is_gone(job).await {
                return Err(PostFailure::TriggerGone);
            }
        }
        let mut result = self.bring(job, &pieces, (track, progress), until).await;
        // What has buttons asks for a decision about all that it shows: it stands there whole or not at all.
        let asks = job.outgoing.parts.iter().any(|part| matches!(part, Part::Buttons { .. }));
        if let Err(PostFailure::Extras(reason)) = &result
            && !asks
        {
            tracing::warn!(event = "outbox.plain", %reason, "cards or files were refused; words take their place");
            pieces = lay_out(&job.outgoing.parts, &Capabilities::text_only(door.text_limit));
            result = self.bring(job, &pieces, (track, progress), until).await;
        }
        result?;
        self.remove_rest(&job.outgoing.place, &mut progress.found, pieces.len()).await;
        Ok(())
    }

    /// Whether the message that an answer is for was deleted, which nobody told us while we were away.
    async fn trigger_is_gone(&mut self, job: &Job) -> bool {
        let (Task::Turn(_), Some(trigger)) = (&job.task, &job.outgoing.reply_to) else { return false };
        let request = PostRequest::Fetch { place: job.outgoing.place.clone(), message: trigger.clone() };
        // Whatever else the platform says, the answer is worth a try.
        self.read(&request).await.is_err_and(|error| error.is_message_gone())
    }

    /// The parts with their formulas drawn, where the door takes pictures. What cannot be drawn stays as it is.
    async fn pictured(&self, parts: &[Part], door: &Capabilities) -> Vec<Part> {
        let mut pictured = Vec::with_capacity(parts.len());
        let mut room = door.files;
        for part in parts {
            let Part::Formula { formula } = part else {
                pictured.push(part.clone());
                continue;
            };
            let picture = if room == 0 { None } else { self.picture(formula).await };
            room -= usize::from(picture.is_some());
            pictured.push(picture.map_or_else(|| part.clone(), Part::File));
        }
        pictured
    }

    async fn picture(&self, formula: &str) -> Option<File> {
        match self.renderer.formula(formula).await {
            Ok(png) => {
                let file = File::new("formula.png", "image/png", png);
                Some(File { description: formula.to_owned(), ..file })
            }
            Err(reason) => {
                // What cannot be drawn is named in the formula's own words.
                tracing::info!(event = "outbox.no_picture", reason = reason.label(), text = %reason, "a formula is shown as text");
                None
            }
        }
    }

    /// Brings each piece into the channel: what stands there already is finished by edit, the rest is posted. A courier for edits
    /// stops before the first post.
    async fn bring(
        &mut self,
        job: &Job,
        pieces: &[Piece],
        (track, progress): (Track, &mut Progress),
        until: Instant,
    ) -> Result<(), PostFailure> {
        let mut missing = false;
        for (index, piece) in pieces.iter().enumerate() {
            let known = progress.found.pieces.get(index).filter(|shown| !shown.gone).cloned();
            if let Some(shown) = known {
                if shown.shows(piece) {
                    progress.first_visible.get_or_insert_with(Instant::now);
                    continue;
                }
                match self.edit(job, &shown.message, piece, until).await? {
                    Edited::Done => {
                        progress.first_visible.get_or_insert_with(Instant::now);
                        progress.found.note(index, Shown::whole(shown.message, piece));
                        continue;
                    }
                    Edited::Gone => progress.found.note(index, Shown { gone: true, ..shown }),
                }
            }
            missing = true;
            if track == Track::Edits {
                continue;
            }
            let again = progress.found.pieces.get(index).is_some();
            let message = self.create(job, pieces, (index, again), until).await?;
            if progress.doubtful && index < DRAFT_MESSAGES_MAX {
                // The nonce may have brought back a draft that could not be found.
                self.edit(job, &message, piece, until).await?;
            }
            progress.first_visible.get_or_insert_with(Instant::now);
            progress.found.note(index, Shown::whole(message, piece));
        }
        if missing && track == Track::Edits { Err(PostFailure::Begun) } else { Ok(()) }
    }

    /// Removes what a draft showed beyond the end of the answer. It is tried once: the answer itself stands there.
    async fn remove_rest(&mut self, place: &Place, found: &mut Found, pieces: usize) {
        for shown in found.pieces.drain(pieces.min(found.pieces.len())..) {
            let request = PostRequest::Delete { place: place.clone(), message: shown.message };
            if let Err(error) = self.perform(&request).await {
                tracing::debug!(event = "outbox.retried", error = %error, "a message of a draft could not be removed");
            }
        }
    }

    /// Posts the piece of this index; `again` when a message of it was removed.
    async fn create(
        &mut self,
        job: &Job,
        pieces: &[Piece],
        (index, again): (usize, bool),
        until: Instant,
    ) -> Result<MessageId, PostFailure> {
        let place = job.outgoing.place.clone();
        let reply_to = if index == 0 { job.outgoing.reply_to.clone() } else { None };
        let (piece, nonce) = (&pieces[index], job.task.nonce(index, again));
        let told = Piece { apology: job.outgoing.apology, ..piece.clone() };
        let mut request = PostRequest::Create { place, piece: told, reply_to, nonce };
        let mut uncertain_since: Option<Instant> = None;
        for attempt in 0.. {
            if uncertain_since.is_some_and(|at| at.elapsed() > NONCE_TRUST) {
                let (place, anchor) = (&job.outgoing.place, job.anchor());
                if matches!(anchor, Anchor::Nothing) {
                    // A plain message of no turn cannot be told from others of ours.
                    return Err(PostFailure::Request(Unposted::Uncertain));
                }
                let found = self.find(place, anchor, pieces, until).await?;
                if let Some(shown) = found.pieces.into_iter().nth(index) {
                    return Ok(shown.message);
                }
                uncertain_since = None;
            }
            let error = match self.perform(&request).await {
                Ok(PostResult::Message(message)) => return Ok(message),
                Ok(_) => return Err(PostFailure::Request(Unposted::Unnamed)),
                Err(error) => error,
            };
            if matches!(error, PostError::Unsure(_)) {
                uncertain_since.get_or_insert_with(Instant::now);
            }
            let rejected = matches!(error, PostError::Rejected { .. });
            match self.wait_or_refuse(error, piece, attempt, until).await {
                // It may be the reply alone that is rejected.
                Err(PostFailure::Request(_)) if rejected && drop_reply(&mut request) => {}
                outcome => outcome?,
            }
        }
        unreachable!("tries end by a result or by the deadline")
    }

    async fn edit(
        &mut self,
        job: &Job,
        message: &MessageId,
        piece: &Piece,
        until: Instant,
    ) -> Result<Edited, PostFailure> {
        let place = job.outgoing.place.clone();
        let request = PostRequest::Edit { place, message: message.clone(), piece: piece.clone() };
        for attempt in 0.. {
            let error = match self.perform(&request).await {
                Ok(_) => break,
                Err(error) if error.is_message_gone() => return Ok(Edited::Gone),
                Err(error) => error,
            };
            let rejected = matches!(error, PostError::Rejected { .. });
            match self.wait_or_refuse(error, piece, attempt, until).await {
                // It may no longer be edited: what stands there has to do.
                Err(PostFailure::Request(_)) if rejected && piece.is_plain() => break,
                outcome => outcome?,
            }
        }
        Ok(Edited::Done)
    }
}

/// Makes a reply a plain message; false when it was one.
fn drop_reply(request: &mut PostRequest) -> bool {
    let PostRequest::Create { reply_to, .. } = request else { return false };
    reply_to.take().is_some()
}
