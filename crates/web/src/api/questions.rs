//! `GET /api/v1/questions`: the approvals, questions and tasks of tools that wait for people, for operators. Only the
//! people named there can decide, where the question was asked.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::problem::problem;
use domain::gate::overview::{GatesOverview, OpenGate};
use ports::OpenGates;
use ports::vitals::rfc3339;

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(gates: Arc<dyn OpenGates>) -> Router {
    Router::new().route("/api/v1/questions", get(list)).with_state(gates)
}

async fn list(State(gates): State<Arc<dyn OpenGates>>) -> Response {
    let Some(GatesOverview { count, first }) = gates.open().await else {
        let why = "the open questions cannot be read now; try again in a moment";
        return problem(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    Json(json!({"count": count, "first": first.iter().map(question).collect::<Vec<_>>()})).into_response()
}

fn question(gate: &OpenGate) -> Value {
    json!({
        "kind": gate.kind,
        "tool": gate.tool,
        "server": gate.server,
        "place": gate.place.to_string(),
        "member": gate.requester.to_string(),
        "roles": gate.approvers,
        "asked_at": rfc3339(gate.asked_at),
        "expires_at": rfc3339(gate.expires_at),
    })
}
