//! `/api/v1/links`: the accounts that are linked, for operators.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use crate::problem::problem;
use domain::ids::Person;
use domain::people::{LinkRefusal, can_exist};
use ports::AccountLinks;

/// The longest part of a wrong account that a refusal repeats, in characters.
const SHOWN_MAX: usize = 80;

/// Two accounts, each as `door:id`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    accounts: [Person; 2],
}

/// One account, as `door:id`.
#[derive(Debug, Deserialize)]
struct Single {
    account: Person,
}

/// Returns the routes. The caller that mounts them authorizes requests.
pub fn router(links: Arc<dyn AccountLinks>) -> Router {
    Router::new().route("/api/v1/links", get(list).post(link).delete(unlink)).with_state(links)
}

async fn list(State(links): State<Arc<dyn AccountLinks>>) -> Response {
    Json(json!({"people": links.list().await})).into_response()
}

async fn link(State(links): State<Arc<dyn AccountLinks>>, pair: Result<Json<Pair>, JsonRejection>) -> Response {
    let Ok(Json(Pair { accounts: [first, second] })) = pair else {
        let why = "accounts must be two ids of the form door:id, such as discord:80351110224678912 and api:laptop";
        return refused(StatusCode::BAD_REQUEST, why);
    };
    if let Some(unknown) = [&first, &second].into_iter().find(|account| !can_exist(account)) {
        let shown: String = unknown.to_string().chars().take(SHOWN_MAX).collect();
        let why =
            format!("{shown:?} is no account; accounts are discord:, slack: or api: with an id of at most 128 bytes");
        return refused(StatusCode::BAD_REQUEST, &why);
    }
    match links.link(&first, &second).await {
        Ok(linked) => Json(json!({"accounts": linked})).into_response(),
        Err(refusal) => refused(status(refusal), &refusal.to_string()),
    }
}

async fn unlink(State(links): State<Arc<dyn AccountLinks>>, asked: Result<Query<Single>, QueryRejection>) -> Response {
    let Ok(Query(Single { account })) = asked else {
        return refused(StatusCode::BAD_REQUEST, "account must be an id of the form door:id");
    };
    match links.unlink(&account).await {
        Ok(()) => Json(json!({"status": "ok"})).into_response(),
        Err(refusal) => refused(status(refusal), &refusal.to_string()),
    }
}

fn status(refusal: LinkRefusal) -> StatusCode {
    match refusal {
        LinkRefusal::Closed => StatusCode::FORBIDDEN,
        LinkRefusal::NoLink => StatusCode::NOT_FOUND,
        LinkRefusal::Away => StatusCode::SERVICE_UNAVAILABLE,
        LinkRefusal::Code
        | LinkRefusal::TooMany
        | LinkRefusal::SameDoor
        | LinkRefusal::Already
        | LinkRefusal::Full
        | LinkRefusal::Restricted => StatusCode::CONFLICT,
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    problem(status, why).into_response()
}
