//! The routes of this door: say something in a session, read along, and look after sessions.

mod manage;
mod problem;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::problem::refused;
use super::sessions::{NotTaken, Sessions};
use super::wire::Event;
use super::{DOOR, commands};
use crate::domain::gate::{Choice, Click, Clicker, GateId, Refusal};
use crate::domain::ids::{MessageId, Place, Timestamp};
use crate::domain::incoming::Incoming;
use crate::domain::turn_event::{TurnEvent, TurnUpdate};
use crate::ports::{Intake, NotAccepted, Reading, TurnEventLog, TurnEventReader};

/// The longest text that is taken, in bytes.
const TEXT_MAX: usize = 32 * 1024;
/// The header in which a client that comes back names the last event that it has.
const LAST_EVENT_ID: &str = "last-event-id";
/// The header in which a client names a message, so that it is answered once however often it is submitted.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The longest of these names, in bytes.
const KEY_MAX: usize = 128;
/// How long a client waits for an answer unless it says otherwise, and the longest that it may, in seconds.
const WAIT: u64 = 60;
const WAIT_MAX: u64 = 300;
/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A message, as a client submits it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Submit {
    /// The name of the session, 1 to 64 letters, digits, `-` or `_`; it begins with its first message.
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

/// A decision, as a client submits it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The call may run.
    pub approve: bool,
    /// The same call may for an hour, in that session.
    #[serde(default)]
    pub hour: bool,
}

/// Where a reader was.
#[derive(Debug, Deserialize)]
struct After {
    /// The number of the last event that it has.
    #[serde(default)]
    after: u64,
}

#[derive(Clone)]
struct Shared {
    sessions: Arc<Sessions>,
    intake: Arc<dyn Intake>,
    events: Arc<dyn TurnEventLog>,
}

/// The routes that `openapi.json` describes. The caller that mounts them authorises requests.
pub fn router(sessions: Arc<Sessions>, intake: Arc<dyn Intake>, events: Arc<dyn TurnEventLog>) -> Router {
    Router::new()
        .route("/api/v1/submit", post(submit))
        .route("/api/v1/stream/{session}", get(read_along))
        .route("/api/v1/gate/{id}", post(decide))
        .route("/api/v1/sessions", get(manage::list))
        .route("/api/v1/sessions/{session}", get(manage::show).delete(manage::delete))
        .route("/api/v1/messages/{message}", delete(manage::cancel))
        .route("/api/v1/openapi.json", get(manage::openapi))
        .with_state(Shared { sessions, intake, events })
}

async fn submit(
    State(shared): State<Shared>,
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
    let (incoming, message, command) = match incoming(&shared.sessions, &body, key) {
        Ok(incoming) => incoming,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let place = Place::new(DOOR, body.session);
    // A client may read before something happens.
    shared.events.open(&place);
    let mut open = waiting::open_turns(&*shared.events, &place);
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
                let _ = shared.intake.accept(Incoming::Deleted(MessageId::new(DOOR, turn)), Sessions::us()).await;
            }
        }
        Busy::Queue | Busy::Refuse => {}
    }
    if let Err(NotAccepted) = shared.intake.accept(incoming, Sessions::us()).await {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment");
    }
    if !body.wait {
        return (StatusCode::ACCEPTED, Json(Submitted { message, command })).into_response();
    }
    let within = Duration::from_secs(body.timeout.unwrap_or(WAIT).min(WAIT_MAX));
    let (status, text) = waiting::end(&shared.events, &place, &message, within, || shared.sessions.now()).await;
    Json(json!({"message": message, "command": command, "status": status, "text": text})).into_response()
}

/// What was said, the id under which it is answered, and whether it is a command.
fn incoming(sessions: &Sessions, body: &Submit, key: Option<&str>) -> Result<(Incoming, String, bool), NotTaken> {
    if let Some((name, options)) = commands::parse(&body.text) {
        let command = sessions.runs(&body.session, name, options)?;
        let id = command.callback.id.id.clone();
        return Ok((Incoming::Command(Box::new(command)), id, true));
    }
    let posted = sessions.says(&body.session, &body.text, key)?;
    let id = posted.id.id.clone();
    Ok((Incoming::Posted(posted), id, false))
}

/// Decides about a call of this door that waits. Whoever was let in speaks for whoever asked in the session.
async fn decide(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    body: Result<Json<Verdict>, JsonRejection>,
) -> Response {
    let Json(Verdict { approve, hour }) = match body {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), &rejection.body_text()),
    };
    let unknown = || refused(StatusCode::NOT_FOUND, "nothing of this id waits here");
    let Some(gate) = GateId::parse(&id) else { return unknown() };
    let choice = match (approve, hour) {
        (true, false) => Choice::Once,
        (true, true) => Choice::Hour,
        (false, _) => Choice::Deny,
    };
    let click = Click { gate, choice, by: Clicker::Client(DOOR), place: None, callback: None };
    match shared.intake.decide(click).await {
        Ok(decision) => Json(json!({"status": "ok", "decision": decision.told()})).into_response(),
        // What is another's to decide is not even said to be there.
        Err(Refusal::Unknown | Refusal::WrongPlace | Refusal::NotTheirs) => unknown(),
        Err(Refusal::Decided) => refused(StatusCode::CONFLICT, "it was decided already"),
        Err(Refusal::Expired) => refused(StatusCode::CONFLICT, "it is too late: it counts as denied"),
        Err(Refusal::NotRecorded) => refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment"),
    }
}

async fn read_along(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    after: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let Ok(Query(After { after })) = after else { return refused(StatusCode::BAD_REQUEST, "after is a number") };
    // A browser that connects again names the last event that it has.
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.unwrap_or(after);
    match TurnEventReader::new(Arc::clone(&shared.events), Place::new(DOOR, session), after) {
        Some(reader) => {
            Sse::new(told(shared.sessions, reader)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
        }
        None => refused(StatusCode::NOT_FOUND, "there is no such session; say something first"),
    }
}

/// The events that the reader reads, in order, until the stream ends or the reader is cut.
fn told(sessions: Arc<Sessions>, reader: TurnEventReader) -> impl Stream<Item = Result<SseEvent, axum::Error>> + Send {
    stream::unfold((sessions, reader), |(sessions, mut reader)| async {
        let event = match reader.next().await? {
            Reading::Event(event) => written(event, sessions.now()).await?,
            Reading::Missed(number) => Event::missed(number),
        };
        let data = SseEvent::default().id(event.number.to_string()).json_data(&event);
        Some((data, (sessions, reader)))
    })
}

/// The event as it is sent. A whole answer may be long, and is laid out on a thread for blocking work.
async fn written(event: Arc<TurnEvent>, now: Timestamp) -> Option<Event> {
    match event.update {
        TurnUpdate::Final { .. } | TurnUpdate::Apology { .. } => {
            tokio::task::spawn_blocking(move || Event::of(&event, now)).await.ok()
        }
        _ => Some(Event::of(&event, now)),
    }
}

#[cfg(test)]
mod tests;
