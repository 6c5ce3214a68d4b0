//! A courier: the task that posts one answer, piece by piece, within the platform's budgets and without ever posting twice. An
//! answer whose draft stands in the channel already is finished by edit.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::drafts::Drawn;
use super::found::{Found, Shown};
use crate::domain::budget::{InvalidBudget, RequestBudget};
use crate::domain::ids::{MessageId, TurnId};
use crate::domain::layout::lay_out;
use crate::domain::outgoing::{Capabilities, File, Outgoing, Part, Piece};
use crate::domain::restart::Backoff;
use crate::ports::{Dice, PostError, PostReply, PostRequest, PostResult, Poster, Renderer};

/// How long an answer is tried before it is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(600);
/// How long the platform surely remembers a nonce. Later tries look into the channel first.
const NONCE_TRUST: Duration = Duration::from_secs(60);
/// Waits between tries of one request.
const RETRY: Backoff = Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(10) };
/// The most tries of a read.
const READ_TRIES: u32 = 3;
/// The longest wait that a platform may impose on one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);
/// The shortest time between two edits in one place.
pub(super) const EDIT_EVERY: Duration = Duration::from_secs(1);
/// How many requests of a place's bucket drafts leave for answers.
const DRAFTS_LEAVE: u32 = 1;

/// One answer on its way.
#[derive(Clone)]
pub(super) struct Job {
    pub task: Task,
    pub outgoing: Outgoing,
    pub check: bool,
    /// What the channel shows of it already, when it was drafted.
    pub drawn: Option<Drawn>,
    /// A courier panicked with it.
    pub panicked: bool,
}

impl Job {
    /// A job that nobody has begun.
    pub(super) fn new(task: Task, outgoing: Outgoing) -> Self {
        Self { task, outgoing, check: false, drawn: None, panicked: false }
    }
}

/// What a place allows, as far as it is known; handed from courier to courier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// The platform's bucket for this place is empty until then.
    pub not_before: Option<Instant>,
    /// What is left in that bucket until then is for answers.
    pub drafts_after: Option<Instant>,
    /// When a draft was last shown.
    pub drawn_at: Option<Instant>,
    /// When anything was last edited.
    pub edited_at: Option<Instant>,
}

impl Pace {
    /// Nothing of it matters any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let past = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        past(self.not_before) && past(self.drafts_after) && self.may_edit(now)
    }

    /// Another draft may be begun.
    pub(super) fn may_draft(&self, now: Instant) -> bool {
        let past = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        past(self.not_before) && past(self.drafts_after)
    }

    /// Enough time has gone by since the last change.
    pub(super) fn may_edit(&self, now: Instant) -> bool {
        let rested = |at: Option<Instant>| at.is_none_or(|at| at + EDIT_EVERY <= now);
        rested(self.drawn_at) && rested(self.edited_at)
    }
}

/// What a job is for; also its nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    Turn(TurnId),
    /// Not an answer yet: what there is of it is shown.
    Draft(TurnId),
    Notice(MessageId),
    /// Something that answers nobody, by its name.
    Post(String),
}

impl Task {
    /// The trigger's own id and the number of the piece: unique for the bot, and within 25 characters.
    pub(super) fn nonce(&self, piece: usize) -> String {
        match self {
            Self::Turn(turn) | Self::Draft(turn) => format!("{}-{piece}", turn.id),
            Self::Notice(about) => format!("{}-n{piece}", about.id),
            Self::Post(name) => format!("{name}-{piece}"),
        }
    }
}

/// A posted answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Our messages, in order.
    pub posted: Vec<MessageId>,
    /// When the first of them could be seen.
    pub first_visible: Instant,
    /// More than one message of ours answers the trigger.
    pub doubled: bool,
}

/// How a courier comes back.
pub struct Returned {
    pub(super) task: Task,
    pub(super) result: Result<Delivery, String>,
    pub(super) pace: Pace,
    /// The place itself refused us.
    pub(super) closed: bool,
    /// The job shall be tried once more.
    pub(super) again: Option<Box<Job>>,
}

impl Returned {
    /// A courier panicked. Nobody knows what it had posted by then, so the one further try looks into the channel first.
    pub(super) fn panicked(job: Job, panic: &str) -> Self {
        let (task, first) = (job.task.clone(), !job.panicked);
        let drawn = job.drawn.map(|drawn| Drawn { message: None, text: String::new(), doubtful: true, ..drawn });
        let again = first.then(|| Box::new(Job { check: true, drawn, panicked: true, ..job }));
        let result = Err(format!("the courier panicked: {panic}"));
        Self { task, result, pace: Pace::default(), closed: false, again }
    }
}

/// The budgets of a door: requests a second, and refused requests in ten minutes.
pub struct Pacer {
    origin: Instant,
    budget: RequestBudget,
    invalid: InvalidBudget,
}

impl Pacer {
    /// Budgets of `per_second` requests (0: only what the platform says) and `invalid` refusals in ten minutes.
    #[must_use]
    pub fn new(per_second: u32, invalid: u32) -> Self {
        Self { origin: Instant::now(), budget: RequestBudget::new(per_second), invalid: InvalidBudget::new(invalid) }
    }

    /// Takes the next free slot; the request may go at the returned moment.
    pub fn reserve(&mut self, now: Instant) -> Instant {
        self.origin + self.budget.reserve(now - self.origin)
    }

    /// Whether a slot still holds now that it has come; a later one when everything was blocked meanwhile.
    pub fn renew(&mut self, slot: Instant) -> Instant {
        self.origin + self.budget.renew(slot - self.origin)
    }

    /// Takes a slot only if one is free now and `spare` more would remain.
    pub fn try_reserve(&mut self, now: Instant, spare: u32) -> bool {
        self.budget.try_reserve(now - self.origin, spare)
    }

    /// The platform refused a request with this status.
    pub fn refused(&mut self, now: Instant, status: u16) {
        if matches!(status, 401 | 403 | 429) {
            self.invalid.invalid(now - self.origin);
            // As a block, so that those who wait for its end do not all go at once then.
            if let Some(until) = self.invalid.hold(now - self.origin) {
                self.budget.block_until(until);
            }
        }
    }

    /// The platform said that there were too many requests.
    pub fn limited(&mut self, now: Instant, retry_after: Duration, global: bool) {
        self.refused(now, 429);
        if global {
            self.budget.block_until(now - self.origin + retry_after.min(WAIT_MAX));
        }
    }
}

/// Posts one answer, or reads something, within the budgets.
pub(super) struct Courier {
    pub poster: Arc<dyn Poster>,
    pub pacer: Arc<Mutex<Pacer>>,
    pub dice: Arc<dyn Dice>,
    pub renderer: Arc<dyn Renderer>,
    pub pace: Pace,
}

pub(super) enum Refusal {
    /// The place itself refuses us: everything else that waits for it is refused as well.
    Place(String),
    /// Only this request is refused.
    Request(String),
    /// The cards or files of this request are refused; words may be taken.
    Extras(String),
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
        let closed = matches!(result, Err(Refusal::Place(_)));
        let result =
            result.map_err(|(Refusal::Place(reason) | Refusal::Request(reason) | Refusal::Extras(reason))| reason);
        Returned { task: job.task, result, pace: self.pace, closed, again: None }
    }

    async fn post(&mut self, job: &Job) -> Result<Delivery, Refusal> {
        let begun = Instant::now();
        let until = begun + GIVE_UP_AFTER;
        let door = self.poster.capabilities();
        let mut pieces = lay_out(&self.pictured(&job.outgoing.parts, &door).await, &door);
        if pieces.is_empty() {
            return Err(Refusal::Request("nothing to post".to_owned()));
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
        if let Err(Refusal::Extras(reason)) = &result {
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
    ) -> Result<(), Refusal> {
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
    ) -> Result<MessageId, Refusal> {
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
                    return Err(Refusal::Request("it may have been posted, and nobody can tell".to_owned()));
                }
                let found = self.find(place, trigger, pieces, until).await?;
                if let Some(shown) = found.pieces.into_iter().nth(index) {
                    return Ok(shown.message);
                }
                uncertain_since = None;
            }
            match self.perform(&request).await {
                Ok(PostResult::Message(message)) => return Ok(message),
                Ok(_) => return Err(Refusal::Request("the platform did not name the posted message".to_owned())),
                Err(PostError::NoReply(_)) if drop_reply(&mut request) => {}
                Err(error) => {
                    if matches!(error, PostError::Transient(_)) {
                        uncertain_since.get_or_insert_with(Instant::now);
                    }
                    self.wait_or_refuse(error, piece, attempt, until).await?;
                }
            }
        }
        unreachable!("tries end by a result or by the deadline")
    }

    async fn edit(&mut self, job: &Job, message: &MessageId, piece: &Piece, until: Instant) -> Result<(), Refusal> {
        let place = job.outgoing.place.clone();
        let request = PostRequest::Edit { place, message: message.clone(), piece: piece.clone() };
        for attempt in 0.. {
            if let Some(at) = self.pace.edited_at {
                tokio::time::sleep_until(at + EDIT_EVERY).await;
            }
            match self.perform(&request).await {
                // Somebody removed our message: it was answered all the same.
                Ok(_) | Err(PostError::Refused { status: 404, .. }) => break,
                // It may no longer be edited, which is as good.
                Err(PostError::Refused { status: 400..=403, .. }) if piece.is_plain() => break,
                Err(error) => self.wait_or_refuse(error, piece, attempt, until).await?,
            }
        }
        Ok(())
    }

    /// One read with a few tries.
    pub(super) async fn read(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        let mut attempt = 0;
        loop {
            let error = match self.perform(request).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            attempt += 1;
            if attempt >= READ_TRIES || matches!(error, PostError::Refused { .. } | PostError::NoReply(_)) {
                return Err(error);
            }
            tokio::time::sleep(self.pause(&error, attempt)).await;
        }
    }

    /// One attempt, at its slot.
    pub(super) async fn perform(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        if let Some(at) = self.pace.not_before {
            tokio::time::sleep_until(at).await;
        }
        let mut slot = self.pacer.lock().reserve(Instant::now());
        loop {
            // A timer waits for the end of its millisecond, also when its moment has come already.
            if slot > Instant::now() {
                tokio::time::sleep_until(slot).await;
            }
            let renewed = self.pacer.lock().renew(slot);
            if renewed <= slot {
                break;
            }
            slot = renewed;
        }
        self.attempt(request).await
    }

    /// One attempt right now, with everything learned from the answer.
    pub(super) async fn attempt(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        if matches!(request, PostRequest::Edit { .. }) {
            self.pace.edited_at = Some(Instant::now());
        }
        let result = self.poster.perform(request).await;
        let now = Instant::now();
        match result {
            Ok(PostReply { result, bucket }) => {
                let left = |most: u32| bucket.as_ref().filter(|bucket| bucket.remaining <= most);
                self.pace.not_before = left(0).map(|bucket| now + bucket.reset_after.min(WAIT_MAX));
                self.pace.drafts_after = left(DRAFTS_LEAVE).map(|bucket| now + bucket.reset_after.min(WAIT_MAX));
                Ok(result)
            }
            Err(error) => {
                match &error {
                    PostError::RateLimited { retry_after, global } => {
                        self.pacer.lock().limited(now, *retry_after, *global);
                    }
                    PostError::Refused { status, .. } => self.pacer.lock().refused(now, *status),
                    PostError::NoReply(_) | PostError::Transient(_) => {}
                }
                Err(error)
            }
        }
    }

    /// Waits before the next try of a post, or says why there is none.
    pub(super) async fn wait_or_refuse(
        &self,
        error: PostError,
        piece: &Piece,
        attempt: u32,
        until: Instant,
    ) -> Result<(), Refusal> {
        if let PostError::Refused { status, message } = &error {
            return Err(refusal(*status, message, piece));
        }
        if let PostError::NoReply(_) = &error {
            return Err(Refusal::Request(error.to_string()));
        }
        let pause = self.pause(&error, attempt);
        if Instant::now() + pause > until {
            return Err(Refusal::Request(format!("given up: {error}")));
        }
        tracing::debug!(event = "outbox.retried", error = %error, attempt, "a post is tried again");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn pause(&self, error: &PostError, attempt: u32) -> Duration {
        match error {
            PostError::RateLimited { retry_after, .. } => (*retry_after).min(WAIT_MAX),
            _ => RETRY.base + RETRY.delay(attempt, self.dice.roll()),
        }
    }
}

/// Makes a reply a plain message; false when it was one.
fn drop_reply(request: &mut PostRequest) -> bool {
    let PostRequest::Create { reply_to, .. } = request else { return false };
    reply_to.take().is_some()
}

fn refusal(status: u16, message: &str, piece: &Piece) -> Refusal {
    let text = format!("status {status}: {message}");
    match status {
        // A place may take words and refuse links, pictures or files.
        400 | 403 | 413 if !piece.is_plain() => Refusal::Extras(text),
        401 | 403 | 404 => Refusal::Place(text),
        _ => Refusal::Request(text),
    }
}
