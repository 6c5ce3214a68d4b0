//! One request of a courier: at its slot within the budgets, tried again where that may help, and what is learned from the answer.

use std::time::Duration;

use tokio::time::Instant;

use super::courier::{BESIDE, Courier};
use super::job::Task;
use super::pace::{Flight, Track, WAIT_MAX};
use super::pacer::Slot;
use domain::delivery::{WARN_AT, lets_pass};
use domain::ending::Unposted;
use domain::ids;
use domain::outgoing::Piece;
use domain::rejection::Rejection;
use domain::restart::Backoff;
use ports::{PostError, PostReply, PostRequest, PostResult};

/// Waits between tries of one request.
const RETRY: Backoff = Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(10) };
/// The most tries of a read.
const READ_TRIES: u32 = 3;

/// The most tries of a request that the platform rejects without a reason: with their waits they take some ten seconds.
const REJECTED_TRIES: u32 = 6;

/// Why a request is not tried again.
pub(super) enum PostFailure {
    /// The place is known to be gone or closed to us: everything else for it is rejected as well.
    Place(Rejection, String),
    /// Only this request is refused.
    Request(Unposted),
    /// The cards or files of this request are refused; words may be taken.
    Extras(Unposted),
    /// The message that it answers was deleted before any of it was posted.
    TriggerGone,
    /// The platform refused it for now, and the answers behind it wait no longer.
    Refused(Unposted),
    /// Nothing failed: the edits are done, and the rest is to be posted in its turn.
    Begun,
}

impl Courier {
    /// One read with a few tries.
    pub(super) async fn read(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        let mut attempt = 0;
        loop {
            let error = match self.perform(request).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            attempt += 1;
            let lasting = matches!(&error, PostError::Rejected { reason, .. } if !reason.may_pass());
            if attempt >= READ_TRIES || lasting {
                return Err(error);
            }
            tokio::time::sleep(self.pause(&error, attempt)).await;
        }
    }

    /// One attempt, at its slot.
    pub(super) async fn perform(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        let flight = match Track::of(request) {
            Some(track) => Some(Flight::reserve(&self.pace, track).await),
            None => None,
        };
        let _slot = Slot::take(&self.pacer).await;
        self.send(request, flight).await
    }

    /// One attempt right now, with everything learned from the answer.
    pub(super) async fn attempt(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        let flight = Track::of(request).map(|track| Flight::begin(&self.pace, track));
        self.send(request, flight).await
    }

    async fn send(&mut self, request: &PostRequest, flight: Option<Flight>) -> Result<PostResult, PostError> {
        if self.clearance.is_lost() {
            let message = "another process owns the turn".to_owned();
            return Err(PostError::Rejected { reason: Rejection::Unexplained, message });
        }
        let track = Track::of(request);
        if matches!(request, PostRequest::Edit { .. }) {
            self.pace.lock().changed(Instant::now());
        }
        let result = self.poster.perform(request).await;
        drop(flight);
        let now = Instant::now();
        match result {
            Ok(PostReply { result, bucket }) => {
                if let Some(track) = track {
                    self.pace.lock().learn(track, bucket.as_ref(), now);
                }
                Ok(result)
            }
            Err(error) => {
                // It counts also without an answer that says so.
                if let Some(track) = track {
                    self.pace.lock().spend(track);
                }
                match &error {
                    PostError::Limited { retry_after, global } => {
                        self.pacer.lock().limited(now, *retry_after, *global);
                    }
                    PostError::Rejected { reason, .. } => self.pacer.lock().rejected(now, *reason),
                    PostError::Unsure(_) | PostError::Transient(_) => {}
                }
                Err(error)
            }
        }
    }

    /// Waits before the next try of a post, or says why there is none.
    pub(super) async fn wait_or_refuse(
        &mut self,
        error: PostError,
        piece: &Piece,
        attempt: u32,
        until: Instant,
    ) -> Result<(), PostFailure> {
        if let PostError::Rejected { reason, message } = &error
            && let Some(failure) = failure(*reason, message, piece, self.tries.refused.max(attempt))
        {
            return Err(failure);
        }
        if let Some(patience) = self.patience {
            let refused = matches!(error, PostError::Unsure(_) | PostError::Rejected { .. });
            if refused {
                self.count_refusal(&error);
            }
            let beside = patience == BESIDE && !matches!(error, PostError::Limited { .. });
            if beside || (refused && lets_pass(self.tries.refused, self.tries.refused_for(), patience)) {
                return Err(PostFailure::Refused(Unposted::GaveUp(error.to_string())));
            }
        }
        let pause = self.pause(&error, attempt);
        if Instant::now() + pause > until {
            return Err(PostFailure::Request(Unposted::GaveUp(error.to_string())));
        }
        tracing::debug!(event = "outbox.retried", error = %error, attempt, "a post is tried again");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Counts a refusal. The second one is the line of the log that says why an answer is late.
    fn count_refusal(&mut self, error: &PostError) {
        self.tries.refused = self.tries.refused.saturating_add(1);
        let since = *self.tries.since.get_or_insert_with(Instant::now);
        if self.tries.refused == WARN_AT {
            let turn = match &self.task {
                Some(Task::Turn(turn)) => Some(tracing::field::display(turn)),
                _ => None,
            };
            let (refused, ms) = (self.tries.refused, ids::millis(since.elapsed()));
            tracing::warn!(event = "outbox.delayed", turn, error = %error, refused, ms, "the platform refuses a post; the answer is late");
        }
    }

    /// The wait before the next round of an answer with so many refusals.
    pub(super) fn pause_of_round(refused: u32, roll: f64) -> Duration {
        RETRY.base + RETRY.delay(refused, roll)
    }

    pub(super) fn pause(&self, error: &PostError, attempt: u32) -> Duration {
        match error {
            PostError::Limited { retry_after, .. } => (*retry_after).min(WAIT_MAX),
            _ => RETRY.base + RETRY.delay(attempt, self.dice.roll()),
        }
    }
}

/// What a rejection means for the piece that was to be shown; none when the same request is worth another try.
fn failure(reason: Rejection, words: &str, piece: &Piece, attempt: u32) -> Option<PostFailure> {
    let rejected = || Unposted::Rejected(reason, words.to_owned());
    match reason {
        // A place may take words and refuse links, pictures or files.
        Rejection::Content | Rejection::Forbidden | Rejection::Unexplained if !piece.is_plain() => {
            Some(PostFailure::Extras(rejected()))
        }
        reason if reason.closes_place() => Some(PostFailure::Place(reason, words.to_owned())),
        reason if reason.may_pass() && attempt + 1 < REJECTED_TRIES => None,
        _ => Some(PostFailure::Request(rejected())),
    }
}
