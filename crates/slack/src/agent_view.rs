//! Slack's view of agents: the status of a thread while the bot works, and suggested prompts.
//!
//! Sources: `docs.slack.dev/reference/methods/assistant.threads.setStatus` and `setSuggestedPrompts`.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Slack;
use super::ids::{self, At};
use super::web_api::{Arguments, Call, CallError};
use domain::ids::Place;
use domain::notice::workspace::{SUGGESTED_PROMPTS, WORKING};

/// The time after which the same is shown again. Slack removes a status after two minutes, and when the bot posts.
const AGAIN: Duration = Duration::from_secs(60);
/// The time for which a workspace that refused such a request is not asked again.
const REFUSED: Duration = Duration::from_secs(3_600);
/// The most places that are remembered.
const MOST: usize = 1_000;

/// The pauses of one kind of request about places, such as the statuses of threads.
#[derive(Default)]
pub(super) struct Pauses(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    places: HashMap<Place, Instant>,
    refused: Option<Instant>,
}

impl Pauses {
    /// True if the request about a place is due; counts it as made.
    pub(super) fn is_due(&self, place: &Place, now: Instant) -> bool {
        let mut requests = self.0.lock();
        if requests.refused.is_some_and(|until| until > now) {
            return false;
        }
        if requests.places.len() >= MOST {
            requests.places.retain(|_, at| now.duration_since(*at) < AGAIN);
        }
        if requests.places.len() >= MOST || requests.places.get(place).is_some_and(|at| now.duration_since(*at) < AGAIN)
        {
            return false;
        }
        requests.places.insert(place.clone(), now);
        true
    }

    /// Notes that the request about a place is due again, as after a post of the bot, which removes the status of its
    /// thread.
    pub(super) fn reset(&self, place: &Place) {
        self.0.lock().places.remove(place);
    }

    /// Notes that a request was refused. A refusal that concerns its place alone says nothing about other places.
    fn refuse(&self, error: &CallError, now: Instant) {
        if !error.concerns_place() {
            self.0.lock().refused = Some(now + REFUSED);
        }
    }
}

#[derive(Deserialize)]
struct Nothing {}

impl Slack {
    /// Shows in a thread that the bot works on an answer.
    ///
    /// # Errors
    /// See [`CallError`]. A workspace that has no status is no error.
    pub(super) async fn show_status(&self, place: &Place, at: At<'_>) -> Result<(), CallError> {
        let now = Instant::now();
        let Some(thread) = at.thread.filter(|_| self.statuses.is_due(place, now)) else { return Ok(()) };
        let arguments: Arguments<'_> =
            vec![("channel_id", at.channel.into()), ("thread_ts", thread.into()), ("status", WORKING.into())];
        // A repeated status has the same effect.
        match self.api.call::<Nothing>(Call::reads("assistant.threads.setStatus"), arguments).await {
            Err(error @ (CallError::Refused(_) | CallError::Unexplained(_))) => {
                self.statuses.refuse(&error, now);
                Ok(())
            }
            done => done.map(|Nothing {}| ()),
        }
    }

    /// Suggests prompts in a direct conversation, at most once a minute. A failure is silent: the member can type.
    pub(super) async fn suggest(&self, channel: &str) {
        let now = Instant::now();
        if !self.prompts.is_due(&ids::channel(channel), now) {
            return;
        }
        // With a thread, the call of an app with this view has no effect.
        let arguments: Arguments<'_> = vec![("channel_id", channel.into()), ("prompts", prompts().to_string().into())];
        let suggested = self.api.call::<Nothing>(Call::reads("assistant.threads.setSuggestedPrompts"), arguments).await;
        if let Err(error @ (CallError::Refused(_) | CallError::Unexplained(_))) = suggested {
            self.prompts.refuse(&error, now);
        }
    }
}

/// Returns the prompts in Slack's form.
pub(super) fn prompts() -> Value {
    SUGGESTED_PROMPTS.iter().map(|(title, message)| json!({"title": title, "message": message})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_shown_again_after_a_minute_or_a_post() {
        let (statuses, now, thread) = (Pauses::default(), Instant::now(), ids::thread("C1", "1.5"));
        assert!(statuses.is_due(&thread, now) && !statuses.is_due(&thread, now + AGAIN / 2));
        assert!(statuses.is_due(&thread, now + AGAIN));
        statuses.reset(&thread);
        assert!(statuses.is_due(&thread, now + AGAIN));
        statuses.refuse(&CallError::Unexplained("a proxy refuses it".to_owned()), now);
        assert!(!statuses.is_due(&ids::thread("C1", "2.5"), now + AGAIN));
    }
}
