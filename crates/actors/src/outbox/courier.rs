//! A courier: the task that posts one answer, piece by piece, within the platform's budgets and without duplicates. An
//! answer whose draft is already in the channel is finished by edits.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::attempt::PostFailure;
use super::drafts::Drawn;
use super::found::{Anchor, VisibleAnswer, VisiblePiece};
use super::job::{End, Job, Returned, Task, Tries};
use super::pace::{SharedPace, Track};
use super::pacer::Pacer;
use crate::messages::clearance::Clearance;
use crate::messages::outbox::{Delivery, NONCE_TRUST};
use crate::runtime::blocking::blocking_if;
use crate::services::running::Live;
use domain::delivery::{Form, RefusalKind};
use domain::draft::DRAFT_MESSAGES_MAX;
use domain::ending::Unposted;
use domain::ids::{MessageId, Place};
use domain::layout::lay_out;
use domain::notice::{self, Apology};
use domain::outgoing::{Capabilities, File, Outgoing, Part, Piece};
use domain::planted::Defect;
use domain::rejection::Rejection;
use ports::{Dice, PostError, PostRequest, PostResult, Poster, Renderer};
use telemetry::events::{OUTBOX_NO_PICTURE, OUTBOX_PLAIN, OUTBOX_RETRIED};

/// The time after which an answer is given up, counted from its first refusal, or else from its first try.
pub(super) const GIVE_UP_AFTER: Duration = Duration::from_secs(600);

/// The size in bytes above which an answer is laid out on a blocking thread.
pub(super) const LAID_OUT_HERE: usize = 32 * 1024;

/// The patience with an answer beside the queues: one try of each request in a round.
pub(super) const BESIDE: u32 = 1;

/// Posts one answer, or performs reads, within the budgets.
pub(super) struct Courier {
    pub poster: Arc<dyn Poster>,
    pub pacer: Arc<Mutex<Pacer>>,
    pub dice: Arc<dyn Dice>,
    pub renderer: Arc<dyn Renderer>,
    pub pace: SharedPace,
    /// The settings in use.
    pub live: Live,
    /// The task it carries; none for reads and drafts.
    pub task: Option<Task>,
    /// The tries of the task so far.
    pub tries: Tries,
    /// The number of refusals after which the answers behind it pass; none if refusals are not counted.
    pub patience: Option<u32>,
    /// Permission to post, checked before each request.
    pub clearance: Clearance,
}

/// The progress of a delivery.
struct Progress {
    found: VisibleAnswer,
    /// True if messages of a draft may exist that could not be found.
    doubtful: bool,
    first_visible: Option<Instant>,
    /// True if its whole form has cards or files.
    has_extras: bool,
    /// True if the channel was read in this round.
    looked: bool,
    /// The form that is tried. The larger ones were tried before.
    form: Form,
}

/// The part of an answer that its channel shows after a courier's work.
enum Brought {
    Complete,
    /// The edits are done, and the rest is posted in its turn.
    EditsOnly,
}

/// The result of an edit.
enum Edited {
    Done,
    /// The message was removed.
    Gone,
    /// The message keeps its content, which is not the whole piece.
    Refused,
}

impl Courier {
    /// Posts an answer, or its best form that the platform accepts. An answer sent for edits alone returns when the
    /// rest is to be posted in its turn.
    pub(super) async fn deliver(mut self, mut job: Job, track: Option<Track>) -> Returned {
        let begun = Instant::now();
        self.task = Some(job.task.clone());
        self.tries = job.tries.clone();
        self.tries.begun.get_or_insert(begun);
        self.clearance = job.clearance.clone();
        if !self.clearance.is_given().await {
            return Returned { job, track, end: End::Fenced };
        }
        let drawn = job.drawn.clone().unwrap_or_default();
        let found = VisibleAnswer { pieces: drawn.shown, doubled: false };
        let (origin, doubtful, first_visible) = (drawn.origin, drawn.doubtful, drawn.first_visible);
        let mut progress =
            Progress { found, doubtful, first_visible, has_extras: false, looked: false, form: Form::Whole };
        let result = self.round(&job, track.unwrap_or(Track::Posts), &mut progress).await;
        let Progress { found, doubtful, first_visible, .. } = progress;
        job.tries = self.tries.clone();
        let end = match result {
            Ok((form, Brought::Complete)) => {
                if form != Form::Whole {
                    let place = tracing::field::display(&job.outgoing.place);
                    tracing::warn!(
                        event = OUTBOX_PLAIN,
                        place,
                        ?form,
                        "the platform refused the whole answer and took less"
                    );
                }
                let posted = found.pieces.into_iter().map(|shown| shown.message).collect();
                let first_visible = first_visible.unwrap_or(begun);
                let delivery = Delivery { posted, first_visible, doubled: found.doubled, form };
                return Returned { job, track, end: End::Posted(delivery) };
            }
            Ok((_, Brought::EditsOnly)) | Err(_) if self.clearance.is_lost() => {
                return Returned { job, track, end: End::Fenced };
            }
            Ok((_, Brought::EditsOnly)) => {
                job.edited = true;
                End::EditsOnly
            }
            Err(PostFailure::TriggerGone) => End::TriggerGone,
            Err(PostFailure::Place(reason, words)) => End::Closed(reason, words),
            Err(PostFailure::Refused(reason)) => End::Refused(reason),
            Err(PostFailure::Request(reason) | PostFailure::Extras(reason)) => End::Failed(reason),
        };
        job.drawn = Some(Drawn { shown: found.pieces, origin, doubtful, first_visible, ..Drawn::default() });
        Returned { job, track, end }
    }

    /// Tries the forms of an answer, from the best to the least that is due. Returns the form that the platform
    /// accepted.
    async fn round(
        &mut self,
        job: &Job,
        track: Track,
        progress: &mut Progress,
    ) -> Result<(Form, Brought), PostFailure> {
        let until = self.tries.begun.unwrap_or_else(Instant::now) + GIVE_UP_AFTER;
        let mut form = self.tries.best;
        let mut passing = None;
        loop {
            let result = match form {
                Form::Whole | Form::Words | Form::Apology => self.post(job, form, track, &mut *progress, until).await,
                Form::Reaction => self.react(job).await.map(|()| Brought::Complete),
            };
            let (refusal, reason) = match result {
                Ok(brought) => return Ok((form, brought)),
                // No time is left for any form.
                Err(PostFailure::Request(reason @ Unposted::GaveUp(_))) => return Err(PostFailure::Request(reason)),
                Err(PostFailure::Refused(reason)) => (RefusalKind::Passing, reason),
                Err(PostFailure::Request(reason) | PostFailure::Extras(reason)) => (RefusalKind::Lasting, reason),
                Err(other) => return Err(other),
            };
            let next = job.standing(&self.tries, progress.has_extras).after(form, refusal);
            match refusal {
                RefusalKind::Passing => passing = Some(reason.clone()),
                RefusalKind::Lasting if passing.is_none() => self.tries.best = next.unwrap_or(form),
                RefusalKind::Lasting => {}
            }
            let Some(less) = next else {
                return Err(passing.map_or(PostFailure::Request(reason), PostFailure::Refused));
            };
            tracing::debug!(event = OUTBOX_RETRIED, %reason, from = ?form, to = ?less, "less of the answer is tried");
            form = less;
        }
    }

    async fn post(
        &mut self,
        job: &Job,
        form: Form,
        track: Track,
        progress: &mut Progress,
        until: Instant,
    ) -> Result<Brought, PostFailure> {
        let pieces = self.pieces(job, form).await;
        if pieces.is_empty() {
            return Err(PostFailure::Request(Unposted::Nothing));
        }
        progress.form = form;
        if form == Form::Whole {
            progress.has_extras = pieces.iter().any(|piece| !piece.is_plain());
        }
        // While the platform remembers the nonces, they detect duplicates. Text alone may match another answer.
        let check = job.check
            && job.nonce_until.is_none_or(|until| until <= Instant::now())
            && !Defect::BlindRepeat.is_planted();
        let known = progress.found.pieces.len();
        // An earlier outbox may have posted further messages of a draft.
        let continues = known > 0 && known < pieces.len() && job.is_of_earlier_draft();
        if !progress.looked && (continues || (known == 0 && (check || progress.doubtful))) {
            let found = self.find(&job.outgoing.place, job.anchor(), &pieces, until).await?;
            progress.found.pieces.extend(found.pieces.into_iter().skip(known));
            progress.found.doubled |= found.doubled;
            if progress.found.pieces.is_empty() && check && self.trigger_is_gone(job).await {
                return Err(PostFailure::TriggerGone);
            }
            progress.looked = true;
        }
        let brought = self.bring(job, &pieces, track, progress, until).await?;
        if matches!(brought, Brought::Complete) {
            self.remove_rest(&job.outgoing.place, &mut progress.found, pieces.len()).await;
        }
        Ok(brought)
    }

    /// Returns the content of each post of this form.
    async fn pieces(&self, job: &Job, form: Form) -> Vec<Piece> {
        let door = self.poster.capabilities();
        let words = Capabilities::text_only(door.text_limit);
        match (form, job.rescue) {
            (Form::Whole, _) => laid_out(self.pictured(&job.outgoing, &door).await, door).await,
            (Form::Words, _) => laid_out(job.outgoing.parts.clone(), words).await,
            (Form::Apology, Some(rescue)) => {
                let text = notice::apology(Apology::PostRefused, rescue.locale).to_owned();
                let mut pieces = lay_out(&[Part::Text { text }], &words);
                for piece in &mut pieces {
                    piece.apology = true;
                }
                pieces
            }
            (Form::Apology, None) | (Form::Reaction, _) => Vec::new(),
        }
    }

    /// Reacts to the question in one try, because no text was accepted.
    async fn react(&mut self, job: &Job) -> Result<(), PostFailure> {
        let reaction = self.live.now().settings.rate_limiter.reaction.clone();
        let (Some(message), Some(emoji)) = (job.outgoing.reply_to.clone(), reaction) else {
            return Err(PostFailure::Request(Unposted::Nothing));
        };
        let request = PostRequest::React { place: job.outgoing.place.clone(), message, emoji };
        match self.perform(&request).await {
            Ok(_) => Ok(()),
            Err(PostError::Rejected { reason, message, .. }) => {
                Err(PostFailure::Request(Unposted::Rejected(reason, message)))
            }
            Err(error) => Err(PostFailure::Refused(Unposted::GaveUp(error.to_string()))),
        }
    }

    /// True if the trigger was deleted without a report, for example while the bot was offline.
    async fn trigger_is_gone(&mut self, job: &Job) -> bool {
        let (Task::Turn(_), Some(trigger)) = (&job.task, &job.outgoing.reply_to) else { return false };
        let request = PostRequest::Fetch { place: job.outgoing.place.clone(), message: trigger.clone() };
        // On any other response of the platform, the answer is worth a try.
        self.read(&request).await.is_err_and(|error| error.is_message_gone())
    }

    /// Returns the parts with their formulas drawn, if the door accepts pictures. A formula that cannot be drawn stays
    /// text.
    async fn pictured(&self, outgoing: &Outgoing, door: &Capabilities) -> Vec<Part> {
        let Outgoing { place, parts, .. } = outgoing;
        let mut pictured = Vec::with_capacity(parts.len());
        let mut room = door.files;
        for part in parts {
            let Part::Formula { formula } = part else {
                pictured.push(part.clone());
                continue;
            };
            let picture = if room == 0 { None } else { self.picture(place, formula).await };
            room -= usize::from(picture.is_some());
            pictured.push(picture.map_or_else(|| part.clone(), Part::File));
        }
        pictured
    }

    async fn picture(&self, place: &Place, formula: &str) -> Option<File> {
        match self.renderer.formula(place, formula).await {
            Ok(png) => {
                let file = File::new("formula.png", "image/png", png);
                Some(File { description: formula.to_owned(), ..file })
            }
            Err(reason) => {
                // The reason quotes the part of the formula that cannot be drawn.
                tracing::info!(event = OUTBOX_NO_PICTURE, reason = reason.label(), text = %reason, "a formula is shown as text");
                None
            }
        }
    }

    /// Brings each piece into the channel: existing messages are finished by edits, the rest is posted. A courier for
    /// edits stops before the first post.
    async fn bring(
        &mut self,
        job: &Job,
        pieces: &[Piece],
        track: Track,
        progress: &mut Progress,
        until: Instant,
    ) -> Result<Brought, PostFailure> {
        let mut missing = false;
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 && Defect::FirstPartOnly.is_planted() {
                break;
            }
            let known = progress.found.pieces.get(index).filter(|shown| !shown.gone).cloned();
            if let Some(shown) = known {
                if shown.shows(piece) && !self.poster.is_unfinished(&shown.message) {
                    progress.first_visible.get_or_insert_with(Instant::now);
                    continue;
                }
                match self.edit(job, &shown.message, piece, until).await? {
                    Edited::Done => {
                        progress.first_visible.get_or_insert_with(Instant::now);
                        progress.found.note(index, VisiblePiece::whole(shown.message, piece));
                        continue;
                    }
                    Edited::Gone => progress.found.note(index, VisiblePiece { gone: true, ..shown }),
                    Edited::Refused => {
                        // A beginning must not pass for the answer: another message takes its place.
                        self.discard(&job.outgoing.place, &shown.message).await;
                        progress.found.note(index, VisiblePiece { gone: true, ..shown });
                    }
                }
            }
            missing = true;
            if track == Track::Edits {
                continue;
            }
            let again = progress.found.pieces.get(index).is_some();
            let other_form = progress.form != Form::Whole && self.tries.unsure.is_some();
            let message = self.create(job, pieces, index, again, until).await?;
            let is_drafted = progress.doubtful || job.is_of_earlier_draft();
            if other_form || (is_drafted && index < DRAFT_MESSAGES_MAX) {
                // The nonce may have returned a draft that could not be found, or a larger form of the answer.
                self.edit(job, &message, piece, until).await?;
            }
            progress.first_visible.get_or_insert_with(Instant::now);
            progress.found.note(index, VisiblePiece::whole(message, piece));
        }
        Ok(if missing && track == Track::Edits { Brought::EditsOnly } else { Brought::Complete })
    }

    /// Removes the messages of a draft beyond the end of the answer, in one try, because the answer itself is
    /// complete.
    async fn remove_rest(&mut self, place: &Place, found: &mut VisibleAnswer, pieces: usize) {
        for shown in found.pieces.drain(pieces.min(found.pieces.len())..) {
            self.discard(place, &shown.message).await;
        }
    }

    /// Removes a message of a draft in one try.
    async fn discard(&mut self, place: &Place, message: &MessageId) {
        let request = PostRequest::Delete { place: place.clone(), message: message.clone() };
        if let Err(error) = self.perform(&request).await {
            tracing::debug!(event = OUTBOX_RETRIED, error = %error, "a message of a draft could not be removed");
        }
    }

    /// Posts the piece of this index; `again` if a message of it was removed.
    async fn create(
        &mut self,
        job: &Job,
        pieces: &[Piece],
        index: usize,
        again: bool,
        until: Instant,
    ) -> Result<MessageId, PostFailure> {
        let place = job.outgoing.place.clone();
        let reply_to = if index == 0 { job.outgoing.reply_to.clone() } else { None };
        let (piece, nonce) = (&pieces[index], job.task.nonce(index, again));
        let Outgoing { apology, spent, private, .. } = &job.outgoing;
        let (apology, spent) = (*apology || piece.apology, spent.clone());
        let told = Piece { apology, spent, private: *private, ..piece.clone() };
        let mut request = PostRequest::Create { place, piece: told, reply_to, nonce };
        let mut attempt = 0;
        loop {
            if self.tries.unsure.is_some_and(|at| at.elapsed() > NONCE_TRUST) {
                let (place, anchor) = (&job.outgoing.place, job.anchor());
                if matches!(anchor, Anchor::Nothing) {
                    // A plain message of no turn cannot be distinguished from our other messages.
                    return Err(PostFailure::Request(Unposted::Uncertain));
                }
                let found = self.find(place, anchor, pieces, until).await?;
                if let Some(shown) = found.pieces.into_iter().nth(index) {
                    // It may show another form of the answer, or its draft. If the edit fails, the post stays uncertain.
                    let edited = if shown.shows(piece) {
                        Edited::Done
                    } else {
                        self.edit(job, &shown.message, piece, until).await?
                    };
                    match edited {
                        Edited::Done => {
                            self.tries.unsure = None;
                            return Ok(shown.message);
                        }
                        Edited::Gone => {}
                        Edited::Refused => self.discard(&job.outgoing.place, &shown.message).await,
                    }
                    // The platform may still return the removed message for its nonce.
                    if let PostRequest::Create { nonce, .. } = &mut request {
                        *nonce = job.task.nonce(index, true);
                    }
                }
                self.tries.unsure = None;
            }
            let error = match self.perform(&request).await {
                Ok(PostResult::Message(message)) => {
                    self.tries.unsure = None;
                    return Ok(message);
                }
                Ok(_) => return Err(PostFailure::Request(Unposted::Unnamed)),
                Err(error) => error,
            };
            if matches!(error, PostError::Unsure(_)) {
                self.tries.unsure.get_or_insert_with(Instant::now);
            }
            let of_reply = matches!(&error, PostError::Rejected { reason, .. } if reason.may_be_of_reply());
            match self.wait_or_refuse(error, piece, attempt, until).await {
                // The platform may reject only the reply reference.
                Err(PostFailure::Request(_)) if of_reply && drop_reply(&mut request) => {
                    if self.trigger_is_gone(job).await {
                        return Err(PostFailure::TriggerGone);
                    }
                }
                outcome => outcome?,
            }
            attempt += 1;
        }
    }

    /// True if our message exists in its place, as far as the platform reports.
    async fn stands(&mut self, place: &Place, message: &MessageId) -> bool {
        let request = PostRequest::Fetch { place: place.clone(), message: message.clone() };
        match self.perform(&request).await {
            Ok(PostResult::Messages(messages)) => !messages.is_empty(),
            Err(PostError::Rejected { reason, .. }) => {
                !matches!(reason, Rejection::MessageGone | Rejection::Unexplained | Rejection::Content)
            }
            Ok(_) | Err(_) => true,
        }
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
        let mut attempt = 0;
        loop {
            let error = match self.perform(&request).await {
                Ok(_) => return Ok(Edited::Done),
                Err(error) if error.is_message_gone() => return Ok(Edited::Gone),
                Err(error) => error,
            };
            // Some responses for a removed message do not name that reason.
            let doubtful =
                matches!(&error, PostError::Rejected { reason: Rejection::Unexplained | Rejection::Content, .. });
            if doubtful && !self.stands(&job.outgoing.place, message).await {
                return Ok(Edited::Gone);
            }
            let rejected = matches!(error, PostError::Rejected { .. });
            match self.wait_or_refuse(error, piece, attempt, until).await {
                // The message may no longer be editable, or the platform refuses only the rest of the answer.
                Err(PostFailure::Request(_)) if rejected && piece.is_plain() => return Ok(Edited::Refused),
                outcome => outcome?,
            }
            attempt += 1;
        }
    }
}

/// Lays out an answer, a long one on a blocking thread: looking for good places to cut it takes milliseconds.
async fn laid_out(parts: Vec<Part>, door: Capabilities) -> Vec<Piece> {
    let bytes = |part: &Part| match part {
        Part::Text { text } | Part::Code { text, .. } => text.len(),
        Part::Formula { formula } => formula.len(),
        Part::Card(_) | Part::File(_) | Part::Calls { .. } | Part::Buttons { .. } => 0,
    };
    let is_long = parts.iter().map(bytes).sum::<usize>() > LAID_OUT_HERE;
    blocking_if(is_long, move || lay_out(&parts, &door)).await
}

/// Turns a reply into a plain message; false if it was one already.
fn drop_reply(request: &mut PostRequest) -> bool {
    let PostRequest::Create { reply_to, .. } = request else { return false };
    reply_to.take().is_some()
}
