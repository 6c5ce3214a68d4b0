//! One question to a model: a permit for each call, a few tries for each row, then the row's fallbacks, all within the turn's
//! deadline. After text was shown there is no further try: people would see it begin anew.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Thinking, TurnParts};
use crate::actors::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Priority, Report, Summary};
use crate::actors::outbox::{Draft, OutboxMsg};
use crate::domain::completion::{Completion, Request};
use crate::domain::ending::Ending;
use crate::domain::partial::Partial;
use crate::domain::restart::Backoff;
use crate::domain::turn::{ReplyContract, Turn};
use crate::domain::turn_event::TurnUpdate;
use crate::ports::{DeltaSink, ModelError, ModelErrorKind};

/// The most tries of one row.
const TRIES: u32 = 3;
/// Waits between tries when the provider does not say how long.
const RETRY: Backoff = Backoff { base: Duration::from_millis(300), cap: Duration::from_secs(4) };
/// A provider that asks for a longer wait than this is passed over for the next row.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(20);
/// Pause before a dispatcher that is down is asked again.
const DISPATCHER_AGAIN: Duration = Duration::from_millis(50);

/// How often a draft is announced while it grows: an outbox that was restarted meanwhile has not heard of it.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// A completion, and what it took.
pub(super) struct Asked {
    pub completion: Completion,
    pub row: String,
    pub took: Duration,
}

impl Thinking<'_> {
    /// Asks until a model answers. The error is the last failure.
    pub(super) async fn ask(&self, request: &Request) -> Result<Asked, Ending> {
        let Self { parts, turn, slot, deadline, .. } = *self;
        let mut tried: Vec<String> = Vec::new();
        let mut tries = 0;
        let mut last_failure = Ending::NoModel;
        loop {
            let lease = match permit(parts, turn, &tried, deadline).await {
                Some(Ok(lease)) => lease,
                Some(Err(NoModel::Exhausted)) => return Err(last_failure),
                Some(Err(NoModel::Open)) => return Err(Ending::BreakersOpen),
                Some(Err(NoModel::Busy)) => return Err(Ending::NoPermit),
                None => return Err(Ending::Deadline),
            };
            if tries == 0 && !tried.is_empty() {
                tracing::warn!(event = "llm.fallback", turn = %turn.id, model = lease.row.key, after = tried.join(","), "next model");
            }
            tries += 1;
            let row = lease.row.key.clone();
            parts.timeline.asked(&turn.id, "model", &row);
            let call = Underway { thinking: self, row: &row, tries, begun: Instant::now(), over: false };
            let result = self.complete(&row, request).await;
            drop(lease);
            let took = call.ended(result.as_ref().map(Summary::from).map_err(Clone::clone));
            let error = match result {
                Ok(completion) => return Ok(Asked { completion, row, took }),
                Err(error) => error,
            };
            last_failure = Ending::Model(error.kind);
            if !slot.withdraw() {
                return Err(last_failure);
            }
            match pause(parts, &error, tries) {
                Some(pause) if Instant::now() + pause < deadline => tokio::time::sleep(pause).await,
                _ => {
                    tried.push(row);
                    tries = 0;
                }
            }
        }
    }

    /// One call. It is read along only while nothing was shown yet: a repair replaces what stands there in one step.
    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError> {
        let unseen = self.slot.withdraw();
        match self.turn.policy.reply {
            ReplyContract::Typed if unseen && self.turn.trigger.is_asked() => {
                self.running.models.stream(row, request, self.reader()).await
            }
            ReplyContract::Typed | ReplyContract::Plain => self.running.models.complete(row, request).await,
        }
    }

    /// Reads along, and writes what can be shown into the slot.
    fn reader(&self) -> DeltaSink {
        if self.parts.events.streams(&self.turn.place.door) {
            return self.publisher();
        }
        let (slot, outbox) = (self.slot.clone(), self.parts.outboxes.of(&self.turn.place.door).clone());
        let (turn, again, until) = (self.turn.clone(), self.again, self.deadline);
        let reading: Mutex<(Partial, Option<Instant>)> = Mutex::default();
        Arc::new(move |more| {
            let (partial, announced) = &mut *reading.lock();
            partial.push(more);
            let changed = slot.write(partial.visible());
            if changed && announced.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY) {
                *announced = Some(Instant::now());
                let (id, place) = (turn.id.clone(), turn.place.clone());
                let draft =
                    Draft { turn: id, place, reply_to: Some(turn.id.trigger()), slot: slot.clone(), again, until };
                // An outbox that is down hears of it the next time.
                let _ = outbox.cast(OutboxMsg::Draft(draft));
            }
        })
    }

    /// Reads along, and publishes what can be shown to those who read along at the door.
    fn publisher(&self) -> DeltaSink {
        let (events, slot, turn) = (self.parts.events.clone(), self.slot.clone(), self.turn.clone());
        let reading: Mutex<(Partial, usize)> = Mutex::default();
        Arc::new(move |more| {
            let (partial, published) = &mut *reading.lock();
            partial.push(more);
            let visible = partial.visible();
            let Some(text) = visible.get(*published..).filter(|text| !text.is_empty()) else { return };
            let anew = *published == 0;
            slot.write(visible);
            slot.mark_shown();
            events.publish(&turn.place, &turn.id, || TurnUpdate::Draft { text: text.to_owned(), anew });
            *published = visible.len();
        })
    }
}

/// A call that is under way. What cuts it off drops it, and a call that the turn's deadline cut off is reported as well: the
/// model had its time. A turn that was cancelled says nothing about the model.
struct Underway<'a> {
    thinking: &'a Thinking<'a>,
    row: &'a str,
    tries: u32,
    begun: Instant,
    over: bool,
}

impl Underway<'_> {
    /// The call ended by itself. Gives the time that it took.
    fn ended(mut self, result: Result<Summary, ModelError>) -> Duration {
        self.over = true;
        self.report(result)
    }

    fn report(&self, result: Result<Summary, ModelError>) -> Duration {
        let took = self.begun.elapsed();
        let (turn, row) = (Some(self.thinking.turn.id.clone()), self.row.to_owned());
        let report = Report { turn, row, tries: self.tries, took, result };
        // A dispatcher that is down forgets what it knew of this row anyway.
        let _ = self.thinking.parts.dispatcher.cast(LlmDispatcherMsg::Report(report));
        took
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if self.over || Instant::now() < self.thinking.deadline {
            return;
        }
        self.report(Err(ModelError::new(ModelErrorKind::Timeout, "the turn's deadline came first")));
    }
}

/// A permit for the next row, or why there is none; none when the deadline came first.
async fn permit(parts: &TurnParts, turn: &Turn, tried: &[String], deadline: Instant) -> Option<Result<Lease, NoModel>> {
    loop {
        let row = turn.policy.model.clone();
        let tried = tried.to_vec();
        let asked = turn.trigger.is_asked();
        let priority = if asked { Priority::Waits(turn.person.clone()) } else { Priority::IfFree };
        let ask = |reply| LlmDispatcherMsg::Acquire { row, tried, priority, reply };
        let within = deadline.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return None;
        }
        match parts.dispatcher.call(ask, within).await {
            Ok(answer) => return Some(answer),
            Err(_) => tokio::time::sleep(DISPATCHER_AGAIN).await,
        }
    }
}

/// How long to wait before this row is tried again; none when it is not worth another try.
fn pause(parts: &TurnParts, error: &ModelError, tries: u32) -> Option<Duration> {
    if tries >= TRIES || !error.kind.retryable() {
        return None;
    }
    match error.retry_after {
        Some(wait) if wait > RETRY_AFTER_MAX => None,
        Some(wait) => Some(wait),
        None => Some(RETRY.base + RETRY.delay(tries, parts.dice.roll())),
    }
}
