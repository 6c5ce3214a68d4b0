//! One question to a model: a permit for each call, a few tries for each row, then the row's fallbacks, all within the turn's
//! deadline.

use std::time::Duration;

use tokio::time::Instant;

use super::TurnParts;
use crate::actors::llm_dispatcher::{Lease, LlmDispatcherMsg, NoModel, Report, Summary};
use crate::actors::running::Running;
use crate::domain::completion::{Completion, Request};
use crate::domain::restart::Backoff;
use crate::domain::turn::Turn;
use crate::ports::ModelError;

/// The most tries of one row.
const TRIES: u32 = 3;
/// Waits between tries when the provider does not say how long.
const RETRY: Backoff = Backoff { base: Duration::from_millis(300), cap: Duration::from_secs(4) };
/// A provider that asks for a longer wait than this is passed over for the next row.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(20);
/// Pause before a dispatcher that is down is asked again.
const DISPATCHER_AGAIN: Duration = Duration::from_millis(50);

/// A completion, and what it took.
pub(super) struct Asked {
    pub completion: Completion,
    pub row: String,
    pub took: Duration,
}

/// Asks until a model answers. The error is the label of the last failure.
pub(super) async fn ask(
    parts: &TurnParts,
    running: &Running,
    turn: &Turn,
    request: &Request,
    deadline: Instant,
) -> Result<Asked, &'static str> {
    let mut tried: Vec<String> = Vec::new();
    let mut tries = 0;
    let mut last_failure = "no model";
    loop {
        let lease = match permit(parts, turn, &tried, deadline).await? {
            Ok(lease) => lease,
            Err(NoModel::Exhausted) => return Err(last_failure),
            Err(NoModel::Open) => return Err("breaker open"),
        };
        if tries == 0 && !tried.is_empty() {
            tracing::warn!(event = "llm.fallback", turn = %turn.id, model = lease.row.key, after = tried.join(","), "next model");
        }
        tries += 1;
        let row = lease.row.key.clone();
        let begun = Instant::now();
        let result = running.models.complete(&row, request).await;
        drop(lease);
        let took = begun.elapsed();
        let summary = result.as_ref().map(Summary::from).map_err(Clone::clone);
        let report = Report { turn: turn.id.clone(), row: row.clone(), tries, took, result: summary };
        // A dispatcher that is down forgets what it knew of this row anyway.
        let _ = parts.dispatcher.cast(LlmDispatcherMsg::Report(report));
        let error = match result {
            Ok(completion) => return Ok(Asked { completion, row, took }),
            Err(error) => error,
        };
        last_failure = error.kind.as_str();
        match pause(parts, &error, tries) {
            Some(pause) if Instant::now() + pause < deadline => tokio::time::sleep(pause).await,
            _ => {
                tried.push(row);
                tries = 0;
            }
        }
    }
}

async fn permit(
    parts: &TurnParts,
    turn: &Turn,
    tried: &[String],
    deadline: Instant,
) -> Result<Result<Lease, NoModel>, &'static str> {
    loop {
        let row = turn.policy.model.clone();
        let tried = tried.to_vec();
        let ask = |reply| LlmDispatcherMsg::Acquire { row, tried, reply };
        let within = deadline.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Err("deadline");
        }
        match parts.dispatcher.call(ask, within).await {
            Ok(answer) => return Ok(answer),
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
