//! A message is submitted.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::problem::refused;
use super::{Parts, waiting};
use crate::domain::api_key::Caller;
use crate::domain::ids::{MessageId, Place};
use crate::domain::incoming::Incoming;
use crate::ports::{Intake, NotAccepted};
use crate::terminal::sessions::{NotTaken, Sessions};
use crate::terminal::{DOOR, commands};

/// The longest text that is taken, in bytes.
const TEXT_MAX: usize = 32 * 1024;
/// The header in which a client names a message, so that it is answered once however often it is submitted.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The longest of these names, in bytes.
const KEY_MAX: usize = 128;
/// How long a client waits for an answer unless it says otherwise, and the longest that it may, in seconds.
const WAIT: u64 = 60;
const WAIT_MAX: u64 = 300;

/// A message, as a client submits it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Submit {
    /// The name of the session, 1 to 64 letters, digits, `-` or `_`, or its number; it begins with its first message.
    pub session: String,
    /// The text, at most 32 KiB.
    pub text: String,
    /// The response is the answer, and not only that the message was taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// How long it waits, in seconds, at most 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// What becomes of it while the session is answered something else.
    #[serde(default)]
    pub busy: Busy,
    /// A client that waits and goes away cancels its message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_when_gone: bool,
}

/// What becomes of a message while its session is answered another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// It waits for its turn.
    #[default]
    Queue,
    /// It cancels the other ones.
    Replace,
    /// It is refused.
    Refuse,
}

/// The answer to a message that was taken.
#[derive(Debug, Serialize, Deserialize)]
pub struct Submitted {
    /// The id of the message: the turn that events name.
    pub message: String,
    /// It is a command: its answer is not durable, so it comes soon or never.
    #[serde(default)]
    pub command: bool,
}

/// Cancels turns when it is dropped before it is over.
pub(super) struct Leaving {
    intake: Arc<dyn Intake>,
    turns: Vec<String>,
}

impl Leaving {
    /// Cancels these turns unless they are over before.
    pub(super) fn cancels(intake: &Arc<dyn Intake>, turns: Vec<String>) -> Self {
        Self { intake: Arc::clone(intake), turns }
    }

    /// This turn too.
    pub(super) fn add(&mut self, turn: &str) {
        if !self.turns.iter().any(|known| known == turn) {
            self.turns.push(turn.to_owned());
        }
    }

    /// This turn is over.
    pub(super) fn over(&mut self, turn: &str) {
        self.turns.retain(|known| known != turn);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let turns = std::mem::take(&mut self.turns);
        if turns.is_empty() {
            return;
        }
        let intake = Arc::clone(&self.intake);
        tokio::spawn(async move {
            for turn in turns {
                // A turn that is not cancelled is answered and kept.
                let _ = intake.accept(Incoming::Deleted(MessageId::new(DOOR, turn)), Sessions::us()).await;
            }
        });
    }
}

pub(super) async fn submit(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Result<Json<Submit>, JsonRejection>,
) -> Response {
    let Json(body) = match body {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), &rejection.body_text()),
    };
    if body.text.len() > TEXT_MAX {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the text is too long");
    }
    let key = headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str().unwrap_or_default());
    if key.is_some_and(|key| key.is_empty() || key.len() > KEY_MAX) {
        return refused(StatusCode::BAD_REQUEST, "Idempotency-Key has 1 to 128 visible characters");
    }
    let Heard { incoming, place, message, command } = match incoming(&parts.sessions, &caller, &body, key).await {
        Ok(heard) => heard,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    // A client may read before something happens.
    parts.events.open(&place);
    let mut open = waiting::open_turns(&*parts.events, &place);
    open.retain(|turn| *turn != message);
    match body.busy {
        Busy::Refuse if !open.is_empty() => {
            return refused(
                StatusCode::CONFLICT,
                "the session is being answered; wait, or send busy: queue or replace",
            );
        }
        Busy::Replace => {
            for turn in open {
                // One that cannot be cancelled now is waited for.
                let _ = parts.intake.accept(Incoming::Deleted(MessageId::new(DOOR, turn)), Sessions::us()).await;
            }
        }
        Busy::Queue | Busy::Refuse => {}
    }
    let leaves = body.wait && body.cancel_when_gone;
    let mut leaving = Leaving::cancels(&parts.intake, leaves.then(|| message.clone()).into_iter().collect());
    if let Err(NotAccepted) = parts.intake.accept(incoming, Sessions::us()).await {
        leaving.over(&message);
        return refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment");
    }
    if !body.wait {
        return (StatusCode::ACCEPTED, Json(Submitted { message, command })).into_response();
    }
    let within = Duration::from_secs(body.timeout.unwrap_or(WAIT).min(WAIT_MAX));
    let (status, text) = waiting::end(&parts.events, &place, &message, within, || parts.sessions.now()).await;
    leaving.over(&message);
    Json(json!({"message": message, "command": command, "status": status, "text": text})).into_response()
}

/// What was said.
struct Heard {
    incoming: Incoming,
    place: Place,
    /// The id under which it is answered.
    message: String,
    /// Whether it is a command.
    command: bool,
}

async fn incoming(sessions: &Sessions, caller: &Caller, body: &Submit, key: Option<&str>) -> Result<Heard, NotTaken> {
    if body.text.trim().is_empty() {
        return Err(NotTaken::Empty);
    }
    let place = sessions.open(caller, &body.session).await?.place;
    if let Some((name, options)) = commands::parse(&body.text) {
        let command = sessions.runs(caller, &place, name, options).await;
        let message = command.callback.id.id.clone();
        return Ok(Heard { incoming: Incoming::Command(Box::new(command)), place, message, command: true });
    }
    let posted = sessions.says(caller, &place, &body.text, key).await?;
    let message = posted.id.id.clone();
    Ok(Heard { incoming: Incoming::Posted(posted), place, message, command: false })
}
