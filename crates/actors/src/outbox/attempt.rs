//! One request of a courier: sent at its slot within the budgets, retried where that can help, with the limits learned
//! from the response.

use std::time::Duration;

use tokio::time::Instant;

use super::courier::{BESIDE, Courier};
use super::job::Task;
use super::pace::{Flight, Track, WAIT_MAX};
use super::pacer::{Payer, Slot};
use domain::delivery::{WARN_AT, lets_pass};
use domain::ending::Unposted;
use domain::ids;
use domain::outgoing::Piece;
use domain::planted::Defect;
use domain::rejection::Rejection;
use domain::restart::Backoff;
use ports::{PostError, PostReply, PostRequest, PostResult};
use telemetry::events::{OUTBOX_DELAYED, OUTBOX_RETRIED};

/// The delays between tries of one request.
const RETRY: Backoff = Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(10) };
/// The most tries of a read.
const READ_TRIES: u32 = 3;

/// The most tries of a request that the platform rejects without a reason; with their delays they take about ten
/// seconds.
const REJECTED_TRIES: u32 = 6;

/// The reason for which a request is not retried.
pub(super) enum PostFailure {
    /// The place is gone or forbidden: every other request for it is rejected as well.
    Place(Rejection, String),
    /// Only this request is refused.
    Request(Unposted),
    /// The cards or files of this request are refused; plain text may be accepted.
    Extras(Unposted),
    /// The trigger was deleted before any of the answer was posted.
    TriggerGone,
    /// The platform refused the request for now, and the answers behind it stop waiting.
    Refused(Unposted),
}

impl Courier {
    /// Performs one read with a few tries.
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

    /// Performs one attempt, at its slot.
    pub(super) async fn perform(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        let flight = match Track::of(request) {
            Some(track) => Some(Flight::reserve(&self.pace, track).await),
            None => None,
        };
        let _slot = Slot::take(&self.pacer, || Payer::of(&*self.poster, request)).await;
        self.send(request, flight).await
    }

    /// Performs one attempt immediately, and learns the limits from the response.
    pub(super) async fn attempt(&mut self, request: &PostRequest) -> Result<PostResult, PostError> {
        let flight = Track::of(request).map(|track| Flight::begin(&self.pace, track));
        self.send(request, flight).await
    }

    async fn send(&mut self, request: &PostRequest, flight: Option<Flight>) -> Result<PostResult, PostError> {
        if self.clearance.is_lost() {
            let message = "another process owns the turn".to_owned();
            return Err(PostError::unsent(Rejection::Unexplained, message));
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
                // The request counts against the bucket even if the response does not report it.
                if let Some(track) = track {
                    self.pace.lock().spend(track);
                }
                let payer = || Payer::of(&*self.poster, request);
                self.pacer.lock().failed(now, &error, payer);
                if let (PostError::Limited { retry_after, .. }, Some(track)) = (&error, track) {
                    self.pace.lock().limited(track, *retry_after, now);
                }
                Err(error)
            }
        }
    }

    /// Sleeps before the next try of a post, or returns the reason why there is none.
    pub(super) async fn wait_or_refuse(
        &mut self,
        error: PostError,
        piece: &Piece,
        attempt: u32,
        until: Instant,
    ) -> Result<(), PostFailure> {
        if let PostError::Rejected { reason, message, .. } = &error
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
        if Instant::now() + pause > until || Defect::NoRetry.is_planted() {
            return Err(PostFailure::Request(Unposted::GaveUp(error.to_string())));
        }
        tracing::debug!(event = OUTBOX_RETRIED, error = %error, attempt, "a post is tried again");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Counts a refusal. The second refusal is logged as the reason for a late answer.
    fn count_refusal(&mut self, error: &PostError) {
        self.tries.refused = self.tries.refused.saturating_add(1);
        let since = *self.tries.since.get_or_insert_with(Instant::now);
        if self.tries.refused == WARN_AT {
            let turn = match &self.task {
                Some(Task::Turn(turn)) => Some(tracing::field::display(turn)),
                _ => None,
            };
            let (refused, ms) = (self.tries.refused, ids::millis(since.elapsed()));
            tracing::warn!(event = OUTBOX_DELAYED, turn, error = %error, refused, ms, "the platform refuses a post; the answer is late");
        }
    }

    /// Returns the delay before the next round of an answer with this number of refusals.
    pub(super) fn pause_of_round(refused: u32, roll: f64) -> Duration {
        RETRY.base + RETRY.delay(refused, roll)
    }

    pub(super) fn pause(&self, error: &PostError, attempt: u32) -> Duration {
        error.pause(RETRY.base + RETRY.delay(attempt, self.dice.roll())).min(WAIT_MAX)
    }
}

/// Returns the consequence of a rejection for the rejected piece, or `None` if the same request is worth another try.
fn failure(reason: Rejection, words: &str, piece: &Piece, attempt: u32) -> Option<PostFailure> {
    let rejected = || Unposted::Rejected(reason, words.to_owned());
    match reason {
        // A place may accept text and refuse links, pictures or files.
        Rejection::Content | Rejection::Forbidden | Rejection::Unexplained if !piece.is_plain() => {
            Some(PostFailure::Extras(rejected()))
        }
        reason if reason.closes_place() => Some(PostFailure::Place(reason, words.to_owned())),
        reason if reason.may_pass() && attempt + 1 < REJECTED_TRIES => None,
        _ => Some(PostFailure::Request(rejected())),
    }
}
