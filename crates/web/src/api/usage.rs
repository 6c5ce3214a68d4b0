//! `GET /api/v1/usage/days`: the usage of each of the last days, by member and by tool; `GET /api/v1/experiments`: the
//! figures of experiments, by arm.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use domain::arm_figures::ArmFigures;
use domain::daily::{DAYS_MAX, DayUse, ToolUse};
use domain::experiment::Trial;
use domain::ledger::Tally;
use ports::UseByDay;

/// The default number of days.
const DAYS: usize = 7;

/// The requested number of days.
#[derive(Debug, Deserialize)]
struct UsageQuery {
    days: Option<usize>,
}

/// Returns the route. The caller that mounts it authorizes requests.
pub fn router(used: Arc<dyn UseByDay>) -> Router {
    Router::new().route("/api/v1/usage/days", get(days)).route("/api/v1/experiments", get(experiments)).with_state(used)
}

async fn days(State(used): State<Arc<dyn UseByDay>>, asked: Result<Query<UsageQuery>, QueryRejection>) -> Response {
    let days =
        asked.ok().map(|Query(UsageQuery { days })| days.unwrap_or(DAYS)).filter(|days| (1..=DAYS_MAX).contains(days));
    let Some(days) = days else {
        return (StatusCode::BAD_REQUEST, format!("days must be a number from 1 to {DAYS_MAX}")).into_response();
    };
    let told: Vec<Value> = used.days(days).await.iter().map(day).collect();
    Json(json!({"days": told})).into_response()
}

async fn experiments(State(used): State<Arc<dyn UseByDay>>) -> Response {
    let arms: Vec<Value> = used.experiments().await.iter().map(arm).collect();
    Json(json!({"arms": arms})).into_response()
}

fn arm((trial, figures): &(Trial, ArmFigures)) -> Value {
    json!({
        "experiment": trial.experiment,
        "arm": trial.arm,
        "answers": figures.answers,
        "apologies": figures.apologies,
        "repaired": figures.repaired,
        "p50_ms": figures.took.percentile(50).map(|micros| micros / 1_000),
        "p95_ms": figures.took.percentile(95).map(|micros| micros / 1_000),
        "tokens_in": figures.tokens_in,
        "cached": figures.cached,
        "tokens_out": figures.tokens_out,
        "micros": figures.micros,
        "unpriced_tokens": figures.unpriced,
        "up": figures.up,
        "down": figures.down,
    })
}

fn day(day: &DayUse) -> Value {
    let members = day.ledger.members.iter().map(|(person, used)| with("member", &person.to_string(), used));
    let own = day.ledger.own.iter().map(|(purpose, used)| with("purpose", purpose, used));
    let tool = |used: &ToolUse| {
        json!({
            "tool": used.tool,
            "calls": used.calls,
            "failed": used.failed,
            "members": used.members,
            "duration_ms": used.duration_ms,
        })
    };
    json!({
        "day": day.day.to_string(),
        "all": tally(&day.ledger.total),
        "members": {"count": day.members, "most": members.collect::<Vec<_>>()},
        "own": own.collect::<Vec<_>>(),
        "tools": {"count": day.tools_all, "most": day.tools.iter().map(tool).collect::<Vec<_>>()},
    })
}

fn with(name: &str, value: &str, used: &Tally) -> Value {
    let mut told = tally(used);
    told[name] = value.into();
    told
}

fn tally(used: &Tally) -> Value {
    json!({
        "messages": used.messages,
        "tokens": used.tokens,
        "tokens_in": used.tokens_in,
        "tokens_out": used.tokens_out,
        "cached": used.cached,
        "micros": used.micros,
        "unpriced_tokens": used.unpriced,
    })
}
