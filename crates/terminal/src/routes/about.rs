//! Queries: models, tools, usage and health.

use std::collections::BTreeMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::Parts;
use super::problem::{refused, status_of};
use crate::DOOR;
use domain::api_key::{Caller, Right};
use domain::ids::{Person, Place};
use domain::ledger::Tally;
use domain::limits::Standing;
use domain::model::Row;
use domain::overview::Usage;

/// Lists the rows that the caller may ask, the default one first.
pub(super) async fn models(State(parts): State<Parts>, Extension(caller): Extension<Caller>) -> Json<Value> {
    let models = parts.models.models();
    let default = models.rows().first().map(|row| row.key.clone());
    let told = |row: &Row| {
        json!({
            "key": row.key,
            "description": row.description,
            "default": Some(&row.key) == default.as_ref(),
            "tools": row.tools.as_str(),
            "vision": row.vision,
            "pdf": row.pdf,
            "stream": row.stream,
            "max_context": row.max_context,
            "timeout_s": row.timeout.as_secs(),
            "fallback": row.fallback.iter().filter(|key| caller.may_ask(key)).collect::<Vec<_>>(),
        })
    };
    let rows: Vec<Value> = models.rows().iter().filter(|row| caller.may_ask(&row.key)).map(told).collect();
    Json(json!({"models": rows}))
}

/// The session in which tools would be used.
#[derive(Deserialize)]
pub(super) struct Within {
    session: Option<String>,
}

/// Lists the tools available to the caller, in one of their sessions if one is named; none for a key without the right
/// to use tools.
pub(super) async fn tools(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    within: Result<Query<Within>, QueryRejection>,
) -> Response {
    let Ok(Query(Within { session })) = within else {
        return refused(StatusCode::BAD_REQUEST, "session must be the name or the number of a session");
    };
    let (person, place) = match session {
        None => asker(&caller),
        Some(session) => match parts.sessions.speaker(&caller, &session).await {
            Ok(speaker) => speaker,
            Err(why) => return refused(status_of(why), &why.to_string()),
        },
    };
    let tools = if caller.may(Right::Tools) { parts.tools.tools(&person, &place).await } else { Vec::new() };
    // With schemas the list may be long: serializing it would block the executor.
    let written = spawn_blocking(move || serde_json::to_vec(&BTreeMap::from([("tools", tools)])));
    match written.await {
        Ok(Ok(written)) => ([(header::CONTENT_TYPE, "application/json")], written).into_response(),
        Ok(Err(_)) | Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "the tools cannot be serialized"),
    }
}

/// Returns the member and place to use if no session is named. With no keys configured, each session counts separately.
pub(super) fn asker(caller: &Caller) -> (Person, Place) {
    let person = caller.person().unwrap_or_else(|| Person::new(DOOR, caller.name()));
    (person, Place::new(DOOR, caller.name()))
}

/// Returns the usage of the key's holder and their limits.
pub(super) async fn usage(State(parts): State<Parts>, Extension(caller): Extension<Caller>) -> Response {
    let (person, place) = asker(&caller);
    let Usage { standing, sums } = parts.usage.usage(&person, &place).await;
    let tally = |tally: &Tally| {
        json!({
            "messages": tally.messages,
            "tokens": tally.tokens,
            "tokens_in": tally.tokens_in,
            "tokens_out": tally.tokens_out,
            "cached": tally.cached,
            "micros": tally.micros,
            "unpriced_tokens": tally.unpriced,
        })
    };
    let window = |standing: &Standing| {
        json!({
            "window_s": standing.window.as_secs(),
            "messages": {"used": standing.messages.0, "most": standing.messages.1},
            "tokens": {"used": standing.tokens.0, "most": standing.tokens.1},
            "frees_at": standing.frees_at,
        })
    };
    let used = json!({"today": tally(&sums.today), "week": tally(&sums.week), "total": tally(&sums.total)});
    Json(json!({"name": caller.name(), "limits": standing.as_ref().map(window), "used": used})).into_response()
}

/// Returns the prompt profiles that the caller may choose.
pub(super) fn profiles(parts: &Parts, caller: &Caller) -> Vec<String> {
    parts.console.profiles().into_iter().filter(|name| caller.may_choose(name)).collect()
}

/// Returns a summary of the bot's health.
pub(super) async fn health(State(parts): State<Parts>, Extension(caller): Extension<Caller>) -> Json<Value> {
    let ready = parts.vitals.readiness();
    let models = parts.models.models();
    let models: Vec<&str> =
        models.rows().iter().filter(|row| caller.may_ask(&row.key)).map(|row| row.key.as_str()).collect();
    let sessions = parts.sessions.count(&caller).await;
    let (status, profiles) = (ready.status.as_str(), profiles(&parts, &caller));
    let version = ready.version;
    Json(json!({"status": status, "version": version, "sessions": sessions, "models": models, "profiles": profiles}))
}
