//! Management of sessions and turns.

use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;

use super::{Parts, problem, waiting};
use crate::DOOR;
use crate::sessions::{FoundSession, Sessions};
use domain::api_key::Caller;
use domain::ids::{MessageId, Place};
use domain::incoming::{Deletion, Incoming};

/// The longest time that deleting a session awaits the removal of its data.
const FORGET_TIMEOUT: Duration = Duration::from_secs(10);

const DOCUMENT: &str = include_str!("../openapi.json");

/// A session's new name.
#[derive(Debug, Deserialize)]
pub(super) struct Rename {
    name: String,
}

/// Returns the `OpenAPI` description of these routes.
pub(super) async fn openapi() -> impl IntoResponse {
    ([("content-type", "application/json")], DOCUMENT)
}

pub(super) async fn list(State(parts): State<Parts>, Extension(caller): Extension<Caller>) -> Response {
    Json(json!({"sessions": parts.sessions.list(&caller).await})).into_response()
}

pub(super) async fn show(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(session): Path<String>,
) -> Response {
    let Some(FoundSession { place, name, number }) = parts.sessions.find(&caller, &session).await else {
        return unknown();
    };
    let messages = parts.sessions.transcript(&place).await;
    Json(json!({"session": name, "number": number, "messages": messages})).into_response()
}

/// Renames a session; its number and messages stay.
pub(super) async fn rename(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(session): Path<String>,
    body: Result<Json<Rename>, JsonRejection>,
) -> Response {
    let Json(Rename { name }) = match body {
        Ok(body) => body,
        Err(rejection) => return problem::refused(rejection.status(), &rejection.body_text()),
    };
    let Some(found) = parts.sessions.find(&caller, &session).await else { return unknown() };
    match parts.sessions.rename(&caller, &found, &name).await {
        Ok(()) => Json(json!({"session": name, "number": found.number})).into_response(),
        Err(why) => problem::refused(problem::status_of(why), &why.to_string()),
    }
}

/// Deletes a session: cancels its turns and removes its conversation.
pub(super) async fn delete(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(session): Path<String>,
) -> Response {
    let Some(FoundSession { place, .. }) = parts.sessions.find(&caller, &session).await else { return unknown() };
    if end(&parts, &caller, &place).await {
        return StatusCode::NO_CONTENT.into_response();
    }
    problem::refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment")
}

/// Cancels the turns of a session and removes it; returns false if that is not possible now.
pub(super) async fn end(parts: &Parts, caller: &Caller, place: &Place) -> bool {
    for turn in (parts.open_turns)(place) {
        // A turn that cannot be cancelled now ends by itself.
        let _ = parts.intake.accept(Incoming::Deleted(Deletion::of(MessageId::new(DOOR, turn))), Sessions::us()).await;
    }
    let command = parts.sessions.runs(caller, place, "new".to_owned(), Vec::new()).await;
    let id = command.callback.id.id.clone();
    parts.events.open(place);
    let begun = parts.intake.accept(Incoming::Command(Box::new(command)), Sessions::us()).await;
    let end = waiting::end(&parts.events, place, &id, FORGET_TIMEOUT, || parts.sessions.now());
    if begun.is_err() || end.await.0 != waiting::Status::Complete {
        return false;
    }
    parts.sessions.remove(place).await;
    parts.events.close(place);
    true
}

/// Cancels the turn of a message; a finished turn is unchanged.
pub(super) async fn cancel(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(message): Path<String>,
) -> Response {
    let is_open = |place: &Place| (parts.open_turns)(place).contains(&message);
    // A message of an earlier process may not be in memory, but its open turn has events again. An unknown id costs no
    // read of the store.
    if !parts.sessions.knows(&caller, &message) && !parts.sessions.places(&caller).await.iter().any(is_open) {
        return problem::refused(StatusCode::NOT_FOUND, "no turn of this message is open in a session of this key");
    }
    let deleted = Incoming::Deleted(Deletion::of(MessageId::new(DOOR, message)));
    match parts.intake.accept(deleted, Sessions::us()).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(_) => problem::refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment"),
    }
}

fn unknown() -> Response {
    problem::refused(StatusCode::NOT_FOUND, "there is no such session; GET /api/v1/sessions lists all")
}
