//! Sessions and turns, as their clients look after them.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{Shared, problem, waiting};
use crate::domain::ids::{MessageId, Place};
use crate::domain::incoming::Incoming;
use crate::terminal::DOOR;
use crate::terminal::sessions::Sessions;

/// How long a session that is deleted waits until nothing is remembered of it.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(10);

const DOCUMENT: &str = include_str!("../openapi.json");

/// The description of these routes.
pub(super) async fn openapi() -> impl IntoResponse {
    ([("content-type", "application/json")], DOCUMENT)
}

pub(super) async fn list(State(shared): State<Shared>) -> Response {
    Json(json!({"sessions": shared.sessions.list()})).into_response()
}

pub(super) async fn show(State(shared): State<Shared>, Path(session): Path<String>) -> Response {
    let name = shared.sessions.named(&session);
    match shared.sessions.transcript(&name) {
        Some(messages) => Json(json!({"session": name, "messages": messages})).into_response(),
        None => unknown(),
    }
}

/// Ends a session: its turns are cancelled, and nothing of its conversation is remembered.
pub(super) async fn delete(State(shared): State<Shared>, Path(session): Path<String>) -> Response {
    let name = shared.sessions.named(&session);
    if shared.sessions.transcript(&name).is_none() {
        return unknown();
    }
    let place = Place::new(DOOR, name.clone());
    for turn in waiting::open_turns(&*shared.events, &place) {
        // One that cannot be cancelled now ends by itself.
        let _ = shared.intake.accept(Incoming::Deleted(MessageId::new(DOOR, turn)), Sessions::us()).await;
    }
    let Ok(command) = shared.sessions.runs(&name, "new".to_owned(), Vec::new()) else { return unknown() };
    let id = command.callback.id.id.clone();
    shared.events.open(&place);
    let begun = shared.intake.accept(Incoming::Command(Box::new(command)), Sessions::us()).await;
    let end = waiting::end(&shared.events, &place, &id, FORGOTTEN_WITHIN, || shared.sessions.now());
    if begun.is_err() || end.await.0 != waiting::Status::Complete {
        return problem::refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment");
    }
    shared.sessions.remove(&name);
    shared.events.close(&place);
    StatusCode::NO_CONTENT.into_response()
}

/// Cancels the turn of a message; one that is over stays as it is.
pub(super) async fn cancel(State(shared): State<Shared>, Path(message): Path<String>) -> Response {
    let deleted = Incoming::Deleted(MessageId::new(DOOR, message));
    match shared.intake.accept(deleted, Sessions::us()).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(_) => problem::refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment"),
    }
}

fn unknown() -> Response {
    problem::refused(StatusCode::NOT_FOUND, "there is no such session; GET /api/v1/sessions lists all")
}
