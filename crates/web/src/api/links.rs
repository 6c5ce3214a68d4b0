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
use domain::ids::{Door, Person};
use domain::people::LinkRefusal;
use ports::AccountLinks;

/// The longest id of an account, in bytes. Each platform's own ids are shorter.
const ID_MAX: usize = 128;
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

/// The links, and the doors at which people have accounts.
#[derive(Clone)]
struct Parts {
    links: Arc<dyn AccountLinks>,
    doors: Arc<[Door]>,
}

/// Returns the routes. The caller that mounts them authorizes requests. `doors` are those at which people have accounts.
pub fn router(links: Arc<dyn AccountLinks>, doors: Arc<[Door]>) -> Router {
    Router::new().route("/api/v1/links", get(list).post(link).delete(unlink)).with_state(Parts { links, doors })
}

async fn list(State(Parts { links, .. }): State<Parts>) -> Response {
    Json(json!({"people": links.list().await})).into_response()
}

async fn link(State(Parts { links, doors }): State<Parts>, pair: Result<Json<Pair>, JsonRejection>) -> Response {
    let Ok(Json(Pair { accounts: [first, second] })) = pair else {
        let why = "accounts must be two ids of the form door:id, such as discord:80351110224678912 and api:laptop";
        return refused(StatusCode::BAD_REQUEST, why);
    };
    if let Some(unknown) = [&first, &second].into_iter().find(|account| !can_exist(account, &doors)) {
        let shown: String = unknown.to_string().chars().take(SHOWN_MAX).collect();
        let names: Vec<&str> = doors.iter().map(Door::as_str).collect();
        let names = names.join(", ");
        let why =
            format!("{shown:?} is no account: door:id has one of the doors {names} and an id of at most 128 bytes");
        return refused(StatusCode::BAD_REQUEST, &why);
    }
    match links.link(&first, &second).await {
        Ok(linked) => Json(json!({"accounts": linked})).into_response(),
        Err(refusal) => refused(status(refusal), &refusal.to_string()),
    }
}

async fn unlink(State(Parts { links, .. }): State<Parts>, asked: Result<Query<Single>, QueryRejection>) -> Response {
    let Ok(Query(Single { account })) = asked else {
        return refused(StatusCode::BAD_REQUEST, "account must be an id of the form door:id");
    };
    match links.unlink(&account).await {
        Ok(()) => Json(json!({"status": "ok"})).into_response(),
        Err(refusal) => refused(status(refusal), &refusal.to_string()),
    }
}

/// True if there can be such an account: at one of these doors, with an id of at most 128 bytes without spaces.
fn can_exist(Person { door, id }: &Person, doors: &[Door]) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    doors.contains(door) && id.len() <= ID_MAX && !id.contains(is_odd)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_unknown_doors_and_with_long_ids_cannot_exist() {
        let doors = ["api", "discord"].map(Door::new);
        let of = |door: &'static str, id: &str| can_exist(&Person::new(Door::new(door), id), &doors);
        assert!(of("discord", "80351110224678912") && of("api", &"x".repeat(128)) && of("api", "Läptop"));
        for (door, id) in [("x", "1"), ("API", "c"), ("api", "U 1"), ("api", "U1\n"), ("api", &"x".repeat(129))] {
            assert!(!of(door, id), "{door}:{id}");
        }
    }
}
