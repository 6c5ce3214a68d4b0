//! Submits a message.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::enclosing::{self, Received, SubmittedFile};
use super::problem::{refused, status_of};
use super::typed::{self, Done, InputRefusal};
use super::{Parts, about, lineage, waiting};
use crate::sessions::{NotTaken, Sessions, Wants, keyed};
use crate::{DOOR, commands};
use domain::api_key::Caller;
use domain::ids::{MessageId, Place};
use domain::incoming::{Deletion, Incoming, Posted};
use domain::lineage::Lineage;
use ports::{Intake, NotAccepted};

/// Maximum length of a text, in bytes.
pub(super) const TEXT_MAX: usize = 32 * 1024;
/// The header with a client's idempotency key: a message is answered once, however often it is submitted.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Maximum length of an idempotency key, in bytes.
const KEY_MAX: usize = 128;
/// The default and the maximum time a client waits for an answer, in seconds.
const WAIT: u64 = 60;
const WAIT_MAX: u64 = 2 * 60 * 60;

/// A submitted message.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Submit {
    /// The session: its name (1 to 64 letters, digits, `-` or `_`) or its number. The first message creates it.
    pub session: String,
    /// The text, at most 32 KiB.
    pub text: String,
    /// True if the response is the answer, instead of an acknowledgement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// The time to wait, in seconds, at most 7200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// The model row for this message; `None` for the session's row. `@row` in front of the text takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The handling of this message while the session is being answered.
    #[serde(default)]
    pub busy: Busy,
    /// The prompt profile for the answer; `None` for the door's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// True to cancel the message if the waiting client disconnects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_when_gone: bool,
    /// Its files, at most ten. They are in memory only until the turn reads them; a restart loses unread ones.
    #[serde(default, deserialize_with = "enclosing::few", skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<SubmittedFile>,
}

/// The handling of a message while its session is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// Queues the message.
    #[default]
    Queue,
    /// Cancels the turns in progress.
    Replace,
    /// Refuses the message.
    Refuse,
}

/// The acknowledgement of a message.
#[derive(Debug, Serialize, Deserialize)]
pub struct Submitted {
    /// The id of the message, which is that of the turn in events.
    pub message: String,
    /// True for a command: its answer is not durable and is lost in a restart.
    #[serde(default)]
    pub command: bool,
    /// The output of the commands in front of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// Cancels turns when dropped before their end.
pub(super) struct Leaving {
    intake: Arc<dyn Intake>,
    turns: Vec<String>,
    /// Cancelled at shutdown: readers will reconnect.
    stop: Stop,
}

/// The shutdown of the service, if the connection has it.
pub(super) type Stop = Option<Extension<CancellationToken>>;

impl Leaving {
    /// Cancels these turns when dropped, unless they have ended.
    pub(super) fn cancels(intake: &Arc<dyn Intake>, turns: Vec<String>, stop: Stop) -> Self {
        Self { intake: Arc::clone(intake), turns, stop }
    }

    pub(super) fn add(&mut self, turn: &str) {
        if !self.turns.iter().any(|known| known == turn) {
            self.turns.push(turn.to_owned());
        }
    }

    /// Cancels nothing: the service is shutting down.
    pub(super) fn stays(&mut self) {
        self.turns.clear();
    }

    /// Removes a finished turn.
    pub(super) fn over(&mut self, turn: &str) {
        self.turns.retain(|known| known != turn);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let turns = std::mem::take(&mut self.turns);
        let ends = self.stop.as_ref().is_some_and(|Extension(stop)| stop.is_cancelled());
        if turns.is_empty() || ends {
            return;
        }
        let intake = Arc::clone(&self.intake);
        tokio::spawn(async move {
            for turn in turns {
                // A turn that is not cancelled is answered and stored.
                let _ =
                    intake.accept(Incoming::Deleted(Deletion::of(MessageId::new(DOOR, turn))), Sessions::us()).await;
            }
        });
    }
}

pub(super) async fn submit(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    stop: Stop,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Received { mut body, room } = match enclosing::receive(&parts, &caller, &headers, body).await {
        Ok(received) => received,
        Err((status, why)) => return refused(status, &why),
    };
    let key = headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str().unwrap_or_default());
    if key.is_some_and(|key| key.is_empty() || key.len() > KEY_MAX) {
        return refused(StatusCode::BAD_REQUEST, "Idempotency-Key must have 1 to 128 visible characters");
    }
    let bad = |why: NotTaken| refused(status_of(why), &why.to_string());
    if body.text.trim().is_empty() {
        return bad(NotTaken::Empty);
    }
    let lineage = match lineage::of(&parts.us, &caller, &headers, &body, parts.sessions.now()) {
        Ok(lineage) => lineage,
        Err(refusal) => return *refusal,
    };
    let place = match parts.sessions.open(&caller, &body.session).await {
        Ok(found) => found.place,
        Err(why) => return bad(why),
    };
    for evicted in parts.sessions.take_evicted() {
        parts.events.close(&evicted);
    }
    // Opens the stream before its first event, so that a client can read it.
    parts.events.open(&place);
    let open = (parts.open_turns)(&place);
    let again = |turn: &&String| key.is_some_and(|key| **turn == keyed(&place.id, key));
    if body.busy == Busy::Refuse && open.iter().any(|turn| !again(&turn)) {
        let why = "the session is being answered; wait, or send busy: queue or replace";
        return refused(StatusCode::CONFLICT, why);
    }
    let (Heard { mut incoming, message, command, known }, said) =
        match heard(&parts, &caller, &place, &body, key, lineage).await {
            Ok((Some(heard), said)) => (heard, said),
            Ok((None, said)) => return Json(done(&body, said)).into_response(),
            Err((status, why)) => return refused(status, &why),
        };
    if !known {
        enclosing::attach(&parts, &mut incoming, std::mem::take(&mut body.attachments), room);
    }
    if body.busy == Busy::Replace {
        for turn in open.into_iter().filter(|turn| *turn != message) {
            // A turn that cannot be cancelled now is awaited.
            let _ =
                parts.intake.accept(Incoming::Deleted(Deletion::of(MessageId::new(DOOR, turn))), Sessions::us()).await;
        }
    }
    let leaves = body.wait && body.cancel_when_gone;
    let mut leaving = Leaving::cancels(&parts.intake, leaves.then(|| message.clone()).into_iter().collect(), stop);
    if let Err(NotAccepted) = parts.intake.accept(incoming, Sessions::us()).await {
        leaving.over(&message);
        if key.is_none() && !command {
            parts.sessions.was_not_said(&place, &message).await;
        }
        return refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment");
    }
    if !body.wait {
        return (StatusCode::ACCEPTED, Json(Submitted { message, command, said })).into_response();
    }
    let within = Duration::from_secs(body.timeout.unwrap_or(WAIT).min(WAIT_MAX));
    let (status, text) = answer(&parts, &place, (&message, known), within).await;
    leaving.over(&message);
    if status == waiting::Status::OverLimit {
        return refused(StatusCode::TOO_MANY_REQUESTS, &text);
    }
    let mut told = json!({"message": message, "command": command, "status": status, "text": text});
    if let Some(said) = said {
        told["said"] = said.into();
    }
    Json(told).into_response()
}

/// Submits what a caller says in an open session, without waiting for the answer. Idempotent by `key`.
pub(super) async fn say(
    parts: &Parts,
    caller: &Caller,
    place: &Place,
    text: String,
    key: Option<&str>,
) -> Result<Submitted, InputRefusal> {
    if text.len() > TEXT_MAX {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "the text is too long".to_owned()));
    }
    if key.is_some_and(|key| key.is_empty() || key.len() > KEY_MAX) {
        return Err((StatusCode::BAD_REQUEST, "id must have 1 to 128 characters".to_owned()));
    }
    if text.trim().is_empty() {
        return Err((status_of(NotTaken::Empty), NotTaken::Empty.to_string()));
    }
    let body = Submit { text, ..Submit::default() };
    let (heard, said) = heard(parts, caller, place, &body, key, None).await?;
    let Some(Heard { incoming, message, command, .. }) = heard else {
        return Ok(Submitted { message: String::new(), command: true, said });
    };
    if let Err(NotAccepted) = parts.intake.accept(incoming, Sessions::us()).await {
        if key.is_none() && !command {
            parts.sessions.was_not_said(place, &message).await;
        }
        return Err((StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment".to_owned()));
    }
    Ok(Submitted { message, command, said })
}

/// Awaits the end of an accepted turn; `known` if its message was submitted before.
async fn answer(
    parts: &Parts,
    place: &Place,
    (message, known): (&str, bool),
    within: Duration,
) -> (waiting::Status, String) {
    if known && let Some(ended) = waiting::earlier(parts, place, message).await {
        return ended;
    }
    waiting::end(&parts.events, place, message, within, || parts.sessions.now()).await
}

fn chosen(parts: &Parts, caller: &Caller, profile: Option<&str>) -> Result<(), String> {
    let Some(profile) = profile else { return Ok(()) };
    let known = about::profiles(parts, caller);
    if known.iter().any(|name| name == profile) {
        return Ok(());
    }
    Err(no_profile(profile, &known))
}

/// Describes an unknown profile and lists the available ones.
pub fn no_profile(profile: &str, known: &[String]) -> String {
    let there = if known.is_empty() { "there is none".to_owned() } else { format!("there are {}", known.join(", ")) };
    let named: String = profile.chars().take(64).collect();
    format!("there is no profile {named:?} for this key; {there}")
}

/// The response to a message with commands only.
fn done(body: &Submit, said: Option<String>) -> serde_json::Value {
    let mut told = json!({"message": "", "command": true, "said": said});
    if body.wait {
        (told["status"], told["text"]) = ("complete".into(), said.unwrap_or_default().into());
    }
    told
}

/// An accepted message.
struct Heard {
    incoming: Incoming,
    /// The id of its answer's turn.
    message: String,
    command: bool,
    /// True if the message was submitted before.
    known: bool,
}

/// Runs the commands in front of a message and submits the rest. If there is no rest, it is done.
async fn heard(
    parts: &Parts,
    caller: &Caller,
    place: &Place,
    Submit { text, model, profile, .. }: &Submit,
    key: Option<&str>,
    lineage: Option<Box<Lineage>>,
) -> Result<(Option<Heard>, Option<String>), InputRefusal> {
    let known = match key {
        Some(key) => parts.sessions.has_message(place, &keyed(&place.id, key)).await,
        None => false,
    };
    // A message submitted before is answered already, or by the row that it named then.
    let model = model.as_ref().filter(|_| !known);
    let model = model.map(|key| typed::asked_row(parts, caller, key)).transpose()?.map(|row| row.key);
    // A message that was accepted remains so, even if its profile was removed since.
    if !known {
        chosen(parts, caller, profile.as_deref()).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    }
    // Text of another server's model is never a command.
    let types = lineage.is_none();
    let Done { said, row, text } = match (types, known) {
        (false, _) => Done { said: None, row: None, text: text.clone() },
        (true, true) => typed::left(parts, caller, text)?,
        (true, false) => typed::run(parts, caller, place, text).await?,
    };
    if text.is_empty() {
        return Ok((None, said));
    }
    if let Some((name, options)) = commands::parse(&text).filter(|_| types) {
        let command = parts.sessions.runs(caller, place, name, options).await;
        let message = command.callback.id.id.to_string();
        let incoming = Incoming::Command(Box::new(command));
        return Ok((Some(Heard { incoming, message, command: true, known: false }), said));
    }
    let wants = Wants { row: row.or(model), profile: profile.clone() };
    let posted = parts.sessions.says(caller, place, &text, wants, key).await;
    let posted = posted.map_err(|why| (status_of(why), why.to_string()))?;
    let message = posted.id.id.to_string();
    Ok((Some(Heard { incoming: Incoming::Posted(Posted { lineage, ..posted }), message, command: false, known }), said))
}
