//! The way in for programs that start a turn: `POST /hooks/{name}` with JSON, signed with the secret of that webhook. A key opens nothing
//! here, and none is needed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use domain::fire::{Fire, NAME_MAX};
use domain::ids::{Person, TurnId};
use domain::incoming::Incoming;
use domain::keys;
use domain::limits::Decision;
use domain::webhook::{Knock, Unproven};
use ports::{Clock, Intake, Store, Webhooks, Write};

/// What every request is told that is not proven, whatever is wrong with it.
const NOT_SIGNED: &str = "no such webhook, or not signed for it just now: send the headers of its scheme, which are X-Staffai-Timestamp (seconds) and X-Staffai-Signature (v1= and HMAC-SHA256 in hexadecimal) unless another one is set";
/// When a sender may try again that met another try of its own, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("30");

/// What the routes need.
#[derive(Clone)]
pub struct Hooks {
    /// The way in.
    pub intake: Arc<dyn Intake>,
    /// The webhooks in force.
    pub webhooks: Arc<dyn Webhooks>,
    /// Where records of turns and budgets are.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Tells this process from others on the same store.
    pub process: Arc<str>,
}

/// The route of all webhooks.
pub fn router(hooks: Hooks) -> Router {
    Router::new().route("/hooks/{name}", post(fired)).with_state(hooks)
}

async fn fired(State(hooks): State<Hooks>, Path(name): Path<String>, request: Request) -> Response {
    let headers = request.headers().clone();
    // The body is read for a webhook that there is, and for headers that may be those of its sender.
    let Some(hook) = hooks.webhooks.webhook(&name) else { return unproven(&name, Unproven::Signature) };
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let knock = hook.proof.scheme.knock(header);
    if let Err(why) = hook.proof.check_head(knock, hooks.clock.now()) {
        return unproven(&name, why);
    }
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), &rejection.body_text()),
    };
    let (knock, now) = (Knock { body: &body, ..knock }, hooks.clock.now());
    if let Err(why) = hook.proof.check(knock, now) {
        return unproven(&name, why);
    }
    let Ok(data) = serde_json::from_slice::<Value>(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the body is no JSON");
    };
    hooks.take(hook.fire(knock, &data, now), hook.proof.scheme.remembered).await
}

impl Hooks {
    /// Takes a fire once. `remembered`: how long a request that comes again is known beyond its turn; its sender is told that all is well.
    async fn take(&self, fire: Fire, remembered: Option<Duration>) -> Response {
        let (id, name) = (TurnId::of(&fire.id), fire.name().to_owned());
        let key = keys::triggers::delivered(&fire.id);
        let is_known = self.store.get(&keys::turn(&id)).await.is_some()
            || remembered.is_some() && self.store.get(&key).await.is_some();
        if is_known {
            let answer = match remembered {
                Some(_) => (StatusCode::OK, Json(json!({"turn": id.id, "repeated": true}))).into_response(),
                None => refused(StatusCode::CONFLICT, "this request was taken before"),
            };
            return over(&name, "replayed", answer);
        }
        if !matches!(self.store.limit(fire.claim(&self.process)).await, Decision::Admitted) {
            return again(
                refused(StatusCode::SERVICE_UNAVAILABLE, "this request is being taken; try again later"),
                AGAIN,
            );
        }
        if let Decision::Refused(refusal) = self.store.limit(fire.budget()).await {
            let answer = refused(StatusCode::TOO_MANY_REQUESTS, "this webhook is over its budget of turns an hour");
            let after = refusal.retry_after.map_or(1, |wait| wait.as_secs() + 1);
            return over(&name, "budget", again(answer, HeaderValue::from(after)));
        }
        let us = Person::new(id.door.clone(), "staffai");
        match self.intake.accept(Incoming::Fired(Box::new(fire)), us).await {
            Ok(()) => {
                if let Some(ttl) = remembered {
                    self.store.commit(vec![Write::Put { key, value: name, ttl: Some(ttl) }]).await;
                }
                (StatusCode::ACCEPTED, Json(json!({"turn": id.id}))).into_response()
            }
            Err(_) => again(refused(StatusCode::SERVICE_UNAVAILABLE, "not now; try again in a moment"), AGAIN),
        }
    }
}

/// The same words whatever is wrong: an unknown webhook, and a known one with a wrong proof.
fn unproven(name: &str, why: Unproven) -> Response {
    let name: String = name.chars().take(NAME_MAX).collect();
    tracing::debug!(event = "trigger.refused", name, reason = why.as_str(), "a request to a webhook was refused");
    refused(StatusCode::UNAUTHORIZED, NOT_SIGNED)
}

fn over(name: &str, reason: &'static str, answer: Response) -> Response {
    tracing::warn!(event = "trigger.refused", name, reason, "a request to a webhook was refused");
    answer
}

fn again(mut answer: Response, after: HeaderValue) -> Response {
    answer.headers_mut().insert(header::RETRY_AFTER, after);
    answer
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, why.to_owned()).into_response()
}
