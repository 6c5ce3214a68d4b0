//! `GET /api/v1/cluster`: the processes that share the store, as `staffai cluster` prints them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::problem::problem;
use ports::Processes;
use ports::processes::ProcessReport;
use ports::vitals::rfc3339;

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(processes: Arc<dyn Processes>) -> Router {
    Router::new().route("/api/v1/cluster", get(list)).with_state(processes)
}

async fn list(State(processes): State<Arc<dyn Processes>>) -> Response {
    let Some(reports) = processes.list().await else {
        let why = "the store does not answer; try again in a moment";
        return problem(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    Json(json!({"processes": reports.iter().map(process).collect::<Vec<_>>()})).into_response()
}

fn process(ProcessReport { name, state, details }: &ProcessReport) -> Value {
    let details = details.as_ref();
    json!({
        "name": name,
        "state": state,
        "version": details.map(|details| &details.version),
        "since": details.map(|details| rfc3339(details.since)),
        "address": details.map(|details| &details.address),
        "reached_at": details.and_then(|details| details.reached_at.as_ref()),
    })
}
