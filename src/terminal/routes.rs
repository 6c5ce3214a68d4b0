//! The routes of this door: say something in a session, and read along.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::sessions::{NotTaken, Sessions};
use super::wire::Event;
use super::{DOOR, commands};
use crate::domain::gate::{Choice, Click, Clicker, GateId, Refusal};
use crate::domain::ids::{Place, Timestamp};
use crate::domain::incoming::Incoming;
use crate::domain::turn_event::{TurnEvent, TurnUpdate};
use crate::ports::{Intake, NotAccepted, Reading, TurnEventLog, TurnEventReader};

/// The longest text that is taken, in bytes.
const TEXT_MAX: usize = 32 * 1024;
/// The header in which a client that comes back names the last event that it has.
const LAST_EVENT_ID: &str = "last-event-id";
/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A message, as a client submits it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Submit {
    /// The name of the session, 1 to 64 letters, digits, `-` or `_`; it begins with its first message.
    pub session: String,
    /// The text, at most 32 KiB.
    pub text: String,
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

/// `POST /api/v1/submit`, `GET /api/v1/stream/{session}` and `POST /api/v1/gate/{id}`. The caller that mounts them authorises requests.
pub fn router(sessions: Arc<Sessions>, intake: Arc<dyn Intake>, events: Arc<dyn TurnEventLog>) -> Router {
    Router::new()
        .route("/api/v1/submit", post(submit))
        .route("/api/v1/stream/{session}", get(read_along))
        .route("/api/v1/gate/{id}", post(decide))
        .with_state(Shared { sessions, intake, events })
}

async fn submit(State(shared): State<Shared>, body: Result<Json<Submit>, JsonRejection>) -> Response {
    let Json(body) = match body {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), &rejection.body_text()),
    };
    if body.text.len() > TEXT_MAX {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the text is too long");
    }
    let (incoming, message, command) = match incoming(&shared.sessions, &body) {
        Ok(incoming) => incoming,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    // A client may read before something happens.
    shared.events.open(&Place::new(DOOR, body.session));
    match shared.intake.accept(incoming, Sessions::us()).await {
        Ok(()) => (StatusCode::ACCEPTED, Json(Submitted { message, command })).into_response(),
        Err(NotAccepted) => refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment"),
    }
}

/// What was said, the id under which it is answered, and whether it is a command.
fn incoming(sessions: &Sessions, body: &Submit) -> Result<(Incoming, String, bool), NotTaken> {
    if let Some((name, options)) = commands::parse(&body.text) {
        let command = sessions.runs(&body.session, name, options)?;
        let id = command.callback.id.id.clone();
        return Ok((Incoming::Command(Box::new(command)), id, true));
    }
    let posted = sessions.says(&body.session, &body.text)?;
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

fn refused(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({"error": why}))).into_response()
}
