//! A courier: the task that posts one answer, piece by piece, within the platform's budgets and without ever posting twice. An
//! answer whose draft stands in the channel already is finished by edit.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::attempt::PostFailure;
use super::found::{Found, Shown};
use super::job::{Job, Returned};
use super::pace::{EDIT_EVERY, Pace};
use super::pacer::Pacer;
use crate::actors::messages::outbox::Delivery;
use crate::domain::ids::MessageId;
use crate::domain::layout::lay_out;
use crate::domain::outgoing::{Capabilities, File, Part, Piece};
use crate::domain::rejection::Rejection;
use crate::ports::{Dice, PostError, PostRequest, PostResult, Poster, Renderer};

/// How long an answer is tried before it is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);
/// How long the platform surely remembers a nonce. Later tries look into the channel first.
const NONCE_TRUST: Duration = Duration::from_secs(60);

/// Posts one answer, or reads something, within the budgets.
pub(super) struct Courier {
    pub poster: Arc<dyn Poster>,
    pub pacer: Arc<Mutex<Pacer>>,
    pub dice: Arc<dyn Dice>,
    pub renderer: Arc<dyn Renderer>,
    pub pace: Pace,
}

/// How far an answer has come.
struct Progress {
    found: Found,
    /// There may be a draft that could not be found.
    doubtful: bool,
    first_visible: Option<Instant>,
}

impl Courier {
    pub(super) async fn deliver(mut self, job: Job) -> Returned {
        let result = self.post(&job).await;
        let closed = matches!(result, Err(PostFailure::Place(_)));
        let result = result.map_err(
            |(PostFailure::Place(reason) | PostFailure::Request(reason) | PostFailure::Extras(reason))| reason,
        );
        Returned { task: job.task, result, pace: self.pace, closed, again: None }
    }

    async fn post(&mut self, job: &Job) -> Result<Delivery, PostFailure> {
        let begun = Instant::now();
        let until = begun + GIVE_UP_AFTER;
        let door = self.poster.capabilities();
        let mut pieces = lay_out(&self.pictured(&job.outgoing.parts, &door).await, &door);
        if pieces.is_empty() {
            return Err(PostFailure::Request("nothing to post".to_owned()));
        }
        let drawn = job.drawn.clone().unwrap_or_default();
        let mut found = Found::default();
        if let Some(message) = drawn.message {
            found.pieces.push(Shown { message, text: drawn.text, whole: false, files: false });
        } else if job.check || drawn.doubtful {
            found = self.find(&job.outgoing.place, job.outgoing.reply_to.as_ref(), &pieces, until).await?;
        }
        let mut progress = Progress { found, doubtful: drawn.doubtful, first_visible: drawn.first_visible };
        let mut result = self.bring(job, &pieces, &mut progress, until).await;
        if let Err(PostFailure::Extras(reason)) = &result {
            tracing::warn!(event = "outbox.plain", reason, "cards or files were refused; words take their place");
            pieces = lay_out(&job.outgoing.parts, &Capabilities::text_only(door.text_limit));
            result = self.bring(job, &pieces, &mut progress, until).await;
        }
        result?;
        let Progress { found, first_visible, .. } = progress;
        let posted = found.pieces.into_iter().map(|shown| shown.message).collect();
        Ok(Delivery { posted, first_visible: first_visible.unwrap_or(begun), doubled: found.doubled })
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
            Ok(png) => Some(File { description: formula.to_owned(), ..File::new("formula.png", "image/png", png) }),
            Err(reason) => {
                // What cannot be drawn is named in the formula's own words.
                tracing::info!(event = "outbox.no_picture", reason = reason.label(), text = %reason, "a formula is shown as text");
                None
            }
        }
    }

    /// Brings each piece into the channel: what stands there already is finished by edit, the rest is posted.
    async fn bring(
        &mut self,
        job: &Job,
        pieces: &[Piece],
        progress: &mut Progress,
        until: Instant,
    ) -> Result<(), PostFailure> {
        for (index, piece) in pieces.iter().enumerate() {
            let message = match progress.found.pieces.get(index) {
                Some(shown) if shown.shows(piece) => shown.message.clone(),
                Some(shown) => {
                    let message = shown.message.clone();
                    self.edit(job, &message, piece, until).await?;
                    message
                }
                None => {
                    let message = self.create(job, pieces, index, until).await?;
                    if index == 0 && progress.doubtful {
                        // The nonce may bring back a draft that could not be found.
                        self.edit(job, &message, piece, until).await?;
                    }
                    message
                }
            };
            progress.first_visible.get_or_insert_with(Instant::now);
            progress
                .found
                .note(index, Shown { message, text: piece.text.clone(), whole: true, files: !piece.files.is_empty() });
        }
        Ok(())
    }

    /// Posts the piece of this index.
    async fn create(
        &mut self,
        job: &Job,
        pieces: &[Piece],
        index: usize,
        until: Instant,
    ) -> Result<MessageId, PostFailure> {
        let place = job.outgoing.place.clone();
        let reply_to = if index == 0 { job.outgoing.reply_to.clone() } else { None };
        let piece = &pieces[index];
        let mut request = PostRequest::Create { place, piece: piece.clone(), reply_to, nonce: job.task.nonce(index) };
        let mut uncertain_since: Option<Instant> = None;
        for attempt in 0.. {
            if uncertain_since.is_some_and(|at| at.elapsed() > NONCE_TRUST) {
                let (place, trigger) = (&job.outgoing.place, job.outgoing.reply_to.as_ref());
                if trigger.is_none() {
                    // A plain message cannot be told from others of ours.
                    return Err(PostFailure::Request("it may have been posted, and nobody can tell".to_owned()));
                }
                let found = self.find(place, trigger, pieces, until).await?;
                if let Some(shown) = found.pieces.into_iter().nth(index) {
                    return Ok(shown.message);
                }
                uncertain_since = None;
            }
            match self.perform(&request).await {
                Ok(PostResult::Message(message)) => return Ok(message),
                Ok(_) => return Err(PostFailure::Request("the platform did not name the posted message".to_owned())),
                // It may be the reply alone that is rejected.
                Err(PostError::Rejected { reason: Rejection::Content | Rejection::MessageGone, .. })
                    if piece.is_plain() && drop_reply(&mut request) => {}
                Err(error) => {
                    if matches!(error, PostError::Unsure(_)) {
                        uncertain_since.get_or_insert_with(Instant::now);
                    }
                    self.wait_or_refuse(error, piece, attempt, until).await?;
                }
            }
        }
        unreachable!("tries end by a result or by the deadline")
    }

    async fn edit(&mut self, job: &Job, message: &MessageId, piece: &Piece, until: Instant) -> Result<(), PostFailure> {
        let place = job.outgoing.place.clone();
        let request = PostRequest::Edit { place, message: message.clone(), piece: piece.clone() };
        for attempt in 0.. {
            if let Some(at) = self.pace.edited_at {
                tokio::time::sleep_until(at + EDIT_EVERY).await;
            }
            match self.perform(&request).await {
                // Somebody removed our message: it was answered all the same.
                Ok(_) | Err(PostError::Rejected { reason: Rejection::MessageGone, .. }) => break,
                // It may no longer be edited, which is as good.
                Err(PostError::Rejected { reason: Rejection::Content | Rejection::Forbidden, .. })
                    if piece.is_plain() =>
                {
                    break;
                }
                Err(error) => self.wait_or_refuse(error, piece, attempt, until).await?,
            }
        }
        Ok(())
    }
}

/// Makes a reply a plain message; false when it was one.
fn drop_reply(request: &mut PostRequest) -> bool {
    let PostRequest::Create { reply_to, .. } = request else { return false };
    reply_to.take().is_some()
}
