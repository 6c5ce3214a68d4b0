//! `GET /api/v1/cluster`: the processes that share the store, and the ranges of a divided bot, as `staffai cluster`
//! prints them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::problem::problem;
use domain::ids::millis;
use ports::Processes;
use ports::processes::{Cluster, HeldRange, ProcessReport};
use ports::vitals::rfc3339;

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(processes: Arc<dyn Processes>) -> Router {
    Router::new().route("/api/v1/cluster", get(list)).with_state(processes)
}

async fn list(State(processes): State<Arc<dyn Processes>>) -> Response {
    let Some(Cluster { processes, ranges }) = processes.list().await else {
        let why = "the store does not answer; try again in a moment";
        return problem(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let processes: Vec<_> = processes.iter().map(process).collect();
    let ranges: Vec<_> = ranges.iter().map(range).collect();
    Json(json!({"processes": processes, "ranges": ranges})).into_response()
}

fn range(HeldRange { portion, holder, age, moves }: &HeldRange) -> Value {
    json!({
        "range": portion.to_string(),
        "process": holder,
        "held_seconds": holder.as_ref().map(|_| age.as_secs()),
        "moves": moves,
    })
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
        "lag_ms": details.map(|details| millis(details.lag)),
    })
}
