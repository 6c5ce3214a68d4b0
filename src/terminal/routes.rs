//! The routes of this door: say something in a session, and read along.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::commands;
use super::sessions::{NotTaken, Sessions};
use crate::domain::incoming::Incoming;
use crate::ports::{Intake, NotAccepted};

/// The longest text that is taken, in bytes.
const TEXT_MAX: usize = 32 * 1024;
/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What somebody says.
#[derive(Debug, Serialize, Deserialize)]
pub struct Submit {
    /// In which session; it begins with the first thing said.
    pub session: String,
    /// What.
    pub text: String,
}

/// What was taken.
#[derive(Debug, Serialize, Deserialize)]
pub struct Submitted {
    /// The id of the message; `done` names it when its answer is complete.
    pub message: String,
    /// It is a command: its answer is kept by nobody, so it comes soon or never.
    #[serde(default)]
    pub command: bool,
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
}

/// `POST /api/v1/submit` and `GET /api/v1/stream/{session}`. Whoever mounts them decides who may ask.
pub fn router(sessions: Arc<Sessions>, intake: Arc<dyn Intake>) -> Router {
    Router::new()
        .route("/api/v1/submit", post(submit))
        .route("/api/v1/stream/{session}", get(read_along))
        .with_state(Shared { sessions, intake })
}

async fn submit(State(shared): State<Shared>, body: Result<Json<Submit>, JsonRejection>) -> Response {
    let Json(body) = match body {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), &rejection.body_text()),
    };
    if body.text.len() > TEXT_MAX {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "the text is too long");
    }
    let (incoming, message, command) = match heard(&shared.sessions, &body) {
        Ok(heard) => heard,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match shared.intake.accept(incoming, Sessions::us()).await {
        Ok(()) => (StatusCode::ACCEPTED, Json(Submitted { message, command })).into_response(),
        Err(NotAccepted) => refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment"),
    }
}

/// What was said, the id under which it is answered, and whether it is a command.
fn heard(sessions: &Sessions, body: &Submit) -> Result<(Incoming, String, bool), NotTaken> {
    if let Some((name, options)) = commands::parse(&body.text) {
        let command = sessions.runs(&body.session, name, options)?;
        let id = command.callback.id.id.clone();
        return Ok((Incoming::Command(Box::new(command)), id, true));
    }
    let posted = sessions.says(&body.session, &body.text)?;
    let id = posted.id.id.clone();
    Ok((Incoming::Posted(posted), id, false))
}

async fn read_along(
    State(shared): State<Shared>,
    Path(session): Path<String>,
    after: Result<Query<After>, QueryRejection>,
) -> Response {
    let Ok(Query(After { after })) = after else { return refused(StatusCode::BAD_REQUEST, "after is a number") };
    match shared.sessions.events(&session, after) {
        Some(_) => Sse::new(events(shared.sessions, session, after))
            .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
            .into_response(),
        None => refused(StatusCode::NOT_FOUND, "there is no such session; say something first"),
    }
}

/// The events after a number, one by one, waiting for more until the session is gone.
fn events(
    sessions: Arc<Sessions>,
    session: String,
    after: u64,
) -> impl Stream<Item = Result<SseEvent, Infallible>> + Send {
    stream::unfold(after, move |after| {
        let (sessions, session) = (Arc::clone(&sessions), session.clone());
        async move {
            loop {
                let (events, mut more) = sessions.events(&session, after)?;
                if let Some(event) = events.into_iter().next() {
                    let data = SseEvent::default().id(event.number.to_string()).json_data(&event).ok()?;
                    return Some((Ok(data), event.number));
                }
                // The sender goes with the session.
                more.wait_for(|newest| *newest > after).await.ok()?;
            }
        }
    })
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({"error": why}))).into_response()
}
