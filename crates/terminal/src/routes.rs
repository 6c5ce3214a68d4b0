//! The HTTP routes of this door: messages, event streams, sessions and queries.

mod about;
mod enclosing;
mod lineage;
mod manage;
mod problem;
mod prompts;
mod reading;
mod settings;
mod submit;
mod typed;
mod voice;
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
use serde_json::{Map, Value, json};

pub use self::enclosing::SubmittedFile;
use self::problem::refused;
pub use self::submit::{Submit, Submitted, no_profile};
use self::typed::InputRefusal;
use super::DOOR;
use super::sessions::Sessions;
use domain::api_key::{Caller, Right};
use domain::gate::{ApprovalDecision, Choice, Click, ClickRefusal, Clicker, GateId};
use domain::ids::Place;
use domain::lineage::Identity;
use ports::{Console, Intake, MemberSettings, ModelsInForce, PromptSections, ToolsOf, TurnEventLog, UsageOf, Vitals};
use speech::Speech;

/// A submitted decision.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// True if the call may run.
    pub approve: bool,
    /// True if the same call is allowed for an hour in that session.
    #[serde(default)]
    pub hour: bool,
    /// The answers to the form of a question, by the names of its fields.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub answers: Map<String, Value>,
}

/// Returns the open turns of a place, oldest first.
pub type OpenTurns = dyn Fn(&Place) -> Vec<String> + Send + Sync;

/// The dependencies of the routes.
#[derive(Clone)]
pub struct Parts {
    /// The identity of this server among servers that ask each other.
    pub us: Arc<Identity>,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// Accepts the turns.
    pub intake: Arc<dyn Intake>,
    /// The events of turns.
    pub events: Arc<dyn TurnEventLog>,
    /// Returns the messages of the open turns of a place, oldest first, in time that does not depend on its events.
    pub open_turns: Arc<OpenTurns>,
    /// The available models.
    pub models: Arc<dyn ModelsInForce>,
    /// The available tools.
    pub tools: Arc<dyn ToolsOf>,
    /// The state of the program.
    pub vitals: Arc<dyn Vitals>,
    /// The usage of members.
    pub usage: Arc<dyn UsageOf>,
    /// The operators' view and commands.
    pub console: Arc<dyn Console>,
    /// The sections of prompts.
    pub prompts: Arc<dyn PromptSections>,
    /// The settings of members.
    pub settings: Arc<dyn MemberSettings>,
    /// The voices, and the rows that hear.
    pub speech: Speech,
}

/// Paths outside of all endpoints.
const ANY_OTHER: [&str; 3] = ["/api/v1", "/api/v1/", "/api/v1/{*other}"];

/// Returns the routes. The caller that mounts them authorizes requests and adds the [`Caller`].
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
        .route("/api/v1/settings", get(settings::show).patch(settings::change))
        .route("/api/v1/health", get(about::health))
        .route("/api/v1/prompts", get(prompts::list))
        .route("/api/v1/prompts/{section}", get(prompts::show).post(prompts::change))
        .route("/api/v1/voice", get(voice::open))
        .route("/api/v1/voice/vtuber", get(voice::open_vtuber))
        .route("/api/v1/openapi.json", get(manage::openapi))
        .layer(Extension(reading::Answers::default()))
        .layer(Extension(voice::Sockets::default()))
        .layer(from_fn(through_this_door))
        .with_state(parts)
}

/// Admits callers whose keys open this door.
async fn through_this_door(Extension(caller): Extension<Caller>, request: Request, next: Next) -> Response {
    if caller.opens(&DOOR) {
        return next.run(request).await;
    }
    let why = "this key does not open this door; staffai key add --door terminal makes one that does";
    refused(StatusCode::FORBIDDEN, why)
}

/// Decides about a pending call of this door: one of the caller's turns or, for operators, any.
async fn decide(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Json<Verdict>, JsonRejection>,
) -> Response {
    let Json(verdict) = match body {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), &rejection.body_text()),
    };
    match decided(&parts, &caller, &id, verdict).await {
        Ok(decision) => Json(json!({"status": "ok", "decision": decision.told()})).into_response(),
        Err((status, why)) => refused(status, &why),
    }
}

/// Passes on the decision of a caller.
async fn decided(
    parts: &Parts,
    caller: &Caller,
    id: &str,
    Verdict { approve, hour, answers }: Verdict,
) -> Result<ApprovalDecision, InputRefusal> {
    let refused = |status, why: &str| Err((status, why.to_owned()));
    let unknown = || refused(StatusCode::NOT_FOUND, "there is no pending call of this id");
    let Some(gate) = GateId::parse(id) else { return unknown() };
    let choice = match (approve, hour) {
        (true, false) => Choice::Once,
        (true, true) => Choice::Hour,
        (false, _) => Choice::Deny,
    };
    let person = caller.person().filter(|_| !caller.may(Right::Operate));
    let click = Click { gate, choice, answers, by: Clicker::Client(DOOR, person), place: None, callback: None };
    match parts.intake.decide(click).await {
        Ok(decision) => Ok(decision),
        // The existence of another member's call is not revealed.
        Err(ClickRefusal::Unknown | ClickRefusal::WrongPlace | ClickRefusal::NotTheirs) => unknown(),
        Err(ClickRefusal::Decided) => refused(StatusCode::CONFLICT, "it was decided already"),
        Err(ClickRefusal::Expired) => refused(StatusCode::CONFLICT, "the approval expired: the call counts as denied"),
        Err(ClickRefusal::Misfit(misfit)) => {
            let why = format!("the answer to field {} does not fit: {}", misfit.field + 1, misfit.problem.as_str());
            refused(StatusCode::UNPROCESSABLE_ENTITY, &why)
        }
        Err(ClickRefusal::NotRecorded) => {
            refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment")
        }
    }
}

#[cfg(test)]
mod tests;
