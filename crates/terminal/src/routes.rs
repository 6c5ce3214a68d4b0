//! The routes of this door: say something in a session, read along, look after sessions, and what there is to know.

mod about;
mod lineage;
mod manage;
mod problem;
mod prompts;
mod reading;
mod submit;
mod typed;
mod waiting;

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post};
use axum::{Extension, Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::problem::refused;
pub use self::submit::{Submit, Submitted, no_profile};
use super::DOOR;
use super::sessions::Sessions;
use domain::api_key::{Caller, Right};
use domain::gate::{Choice, Click, Clicker, GateId, Refusal};
use domain::lineage::Identity;
use ports::{Console, Intake, ModelsInForce, PromptSections, ToolsOf, TurnEventLog, UsageOf, Vitals};

/// A decision, as a client submits it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The call may run.
    pub approve: bool,
    /// The same call may for an hour, in that session.
    #[serde(default)]
    pub hour: bool,
}

/// What the routes work with.
#[derive(Clone)]
pub struct Parts {
    /// Who this server is among those that ask each other.
    pub us: Arc<Identity>,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// The way in.
    pub intake: Arc<dyn Intake>,
    /// Where answers are read.
    pub events: Arc<dyn TurnEventLog>,
    /// The models that may be asked.
    pub models: Arc<dyn ModelsInForce>,
    /// The tools that may be used.
    pub tools: Arc<dyn ToolsOf>,
    /// What is known of the program.
    pub vitals: Arc<dyn Vitals>,
    /// What was used.
    pub usage: Arc<dyn UsageOf>,
    /// What operators see and change.
    pub console: Arc<dyn Console>,
    /// The sections of prompts.
    pub prompts: Arc<dyn PromptSections>,
}

/// Paths beside those of any endpoint.
const ANY_OTHER: [&str; 3] = ["/api/v1", "/api/v1/", "/api/v1/{*other}"];

/// The routes of sessions. The caller that mounts them authorises requests and says who asks.
pub fn router(parts: Parts) -> Router {
    let others =
        ANY_OTHER.into_iter().fold(Router::new(), |others, path| others.route(path, any(problem::no_endpoint)));
    others
        .route("/api/v1/submit", post(submit::submit))
        .route("/api/v1/stream/{session}", get(reading::read_along).post(reading::read_along))
        .route("/api/v1/gate/{id}", post(decide))
        .route("/api/v1/sessions", get(manage::list))
        .route("/api/v1/sessions/{session}", get(manage::show).patch(manage::rename).delete(manage::delete))
        .route("/api/v1/messages/{message}", delete(manage::cancel))
        .route("/api/v1/models", get(about::models))
        .route("/api/v1/tools", get(about::tools))
        .route("/api/v1/usage", get(about::usage))
        .route("/api/v1/health", get(about::health))
        .route("/api/v1/prompts", get(prompts::list))
        .route("/api/v1/prompts/{section}", get(prompts::show).post(prompts::change))
        .route("/api/v1/openapi.json", get(manage::openapi))
        .layer(Extension(reading::Answers::default()))
        .layer(from_fn(through_this_door))
        .with_state(parts)
}

/// Lets those through whose keys open this door.
async fn through_this_door(Extension(caller): Extension<Caller>, request: Request, next: Next) -> Response {
    if caller.opens(&DOOR) {
        return next.run(request).await;
    }
    let why = "this key does not open this door; staffai key add --door terminal makes one that does";
    refused(StatusCode::FORBIDDEN, why)
}

/// Decides about a call of this door that waits: one of the caller's own turns or, for whoever operates the bot, any.
async fn decide(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
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
    let person = caller.person().filter(|_| !caller.may(Right::Operate));
    let click = Click { gate, choice, by: Clicker::Client(DOOR, person), place: None, callback: None };
    match parts.intake.decide(click).await {
        Ok(decision) => Json(json!({"status": "ok", "decision": decision.told()})).into_response(),
        // What is another's to decide is not even said to be there.
        Err(Refusal::Unknown | Refusal::WrongPlace | Refusal::NotTheirs) => unknown(),
        Err(Refusal::Decided) => refused(StatusCode::CONFLICT, "it was decided already"),
        Err(Refusal::Expired) => refused(StatusCode::CONFLICT, "it is too late: it counts as denied"),
        Err(Refusal::NotRecorded) => {
            refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment")
        }
    }
}

#[cfg(test)]
mod tests;
