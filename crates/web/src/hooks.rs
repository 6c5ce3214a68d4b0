//! Webhooks: `POST /hooks/{name}` with JSON, signed with the secret of that webhook, starts a turn. No key is used.

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
use domain::webhook::{Unproven, WebhookRequest};
use ports::{Clock, Intake, Limiter, Store, Stored, Webhooks, Write};
use telemetry::events::TRIGGER_REFUSED;

/// The answer to every unauthenticated request, for any reason.
const NOT_SIGNED: &str = "no such webhook, or not signed for it just now: send the headers of its scheme, which are X-Staffai-Timestamp (seconds) and X-Staffai-Signature (v1= and HMAC-SHA256 in hexadecimal) unless another one is set";
/// `Retry-After` for a request whose earlier attempt is still in progress, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("30");

/// The dependencies of the routes.
#[derive(Clone)]
pub struct Hooks {
    /// Accepts the turns.
    pub intake: Arc<dyn Intake>,
    /// The webhooks in force.
    pub webhooks: Arc<dyn Webhooks>,
    /// The store of turn records.
    pub store: Arc<dyn Store>,
    /// Counts the turns of each webhook, and lets one process take a request.
    pub limiter: Arc<dyn Limiter>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// An id that differs between the processes on one store.
    pub process: Arc<str>,
}

/// Returns the route of all webhooks.
pub fn router(hooks: Hooks) -> Router {
    Router::new().route("/hooks/{name}", post(fired)).with_state(hooks)
}

async fn fired(State(hooks): State<Hooks>, Path(name): Path<String>, request: Request) -> Response {
    let headers = request.headers().clone();
    // The body is read only for an existing webhook and plausible signature headers.
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
    let (knock, now) = (WebhookRequest { body: &body, ..knock }, hooks.clock.now());
    if let Err(why) = hook.proof.check(knock, now) {
        return unproven(&name, why);
    }
    let Ok(data) = serde_json::from_slice::<Value>(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the body is no JSON");
    };
    hooks.take(hook.fire(knock, &data, now), hook.proof.scheme.remembered).await
}

impl Hooks {
    /// Accepts a fire once. `remembered`: the time for which duplicates are recognized after the turn; their sender
    /// gets a success.
    async fn take(&self, fire: Fire, remembered: Option<Duration>) -> Response {
        let (id, name) = (TurnId::of(&fire.id), fire.name().to_owned());
        let key = keys::triggers::delivered(&fire.id);
        let turn = self.store.read(&keys::turn(&id)).await;
        let delivered = if remembered.is_some() { self.store.read(&key).await } else { Stored::Absent };
        let records = [turn, delivered];
        if records.iter().any(|stored| matches!(stored, Stored::Value(_) | Stored::Part(_))) {
            let answer = match remembered {
                Some(_) => (StatusCode::OK, Json(json!({"turn": id.id, "repeated": true}))).into_response(),
                None => refused(StatusCode::CONFLICT, "this request was accepted before"),
            };
            return over(&name, "replayed", answer);
        }
        if records.iter().any(|stored| matches!(stored, Stored::Unreadable(_))) {
            let why = "the store does not answer, so this request may have been accepted before; try again later";
            return again(refused(StatusCode::SERVICE_UNAVAILABLE, why), AGAIN);
        }
        if !matches!(self.limiter.step(fire.claim(&self.process)).await, Decision::Admitted) {
            return again(
                refused(StatusCode::SERVICE_UNAVAILABLE, "this request is in progress; try again later"),
                AGAIN,
            );
        }
        if let Decision::Refused(refusal) = self.limiter.step(fire.budget()).await {
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
            Err(_) => {
                again(refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment"), AGAIN)
            }
        }
    }
}

/// Returns the same answer for an unknown webhook and for a wrong signature.
fn unproven(name: &str, why: Unproven) -> Response {
    let name: String = name.chars().take(NAME_MAX).collect();
    tracing::debug!(event = TRIGGER_REFUSED, name, reason = why.as_str(), "a request to a webhook was refused");
    refused(StatusCode::UNAUTHORIZED, NOT_SIGNED)
}

fn over(name: &str, reason: &'static str, answer: Response) -> Response {
    tracing::warn!(event = TRIGGER_REFUSED, name, reason, "a request to a webhook was refused");
    answer
}

fn again(mut answer: Response, after: HeaderValue) -> Response {
    answer.headers_mut().insert(header::RETRY_AFTER, after);
    answer
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, why.to_owned()).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use domain::fire::{Cause, TriggerAction};
    use domain::gate::{ApprovalDecision, Click, ClickRefusal};
    use domain::ids::Place;
    use domain::webhook::Webhook;
    use ports::NotAccepted;
    use ports::testing::{BEGINNING, DOOR, ManualClock, MemoryStore};

    /// Takes every turn.
    #[derive(Default)]
    struct Taken(Mutex<Vec<Incoming>>);

    #[async_trait]
    impl Intake for Taken {
        async fn accept(&self, incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
            self.0.lock().push(incoming);
            Ok(())
        }

        async fn decide(&self, _click: Click) -> Result<ApprovalDecision, ClickRefusal> {
            Err(ClickRefusal::Unknown)
        }
    }

    struct NoWebhooks;

    impl Webhooks for NoWebhooks {
        fn webhook(&self, _name: &str) -> Option<Arc<Webhook>> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_whose_records_cannot_be_read_is_asked_for_again_and_starts_one_turn() {
        let (store, taken) = (Arc::new(MemoryStore::new()), Arc::new(Taken::default()));
        let hooks = Hooks {
            intake: Arc::clone(&taken) as _,
            webhooks: Arc::new(NoWebhooks),
            store: Arc::clone(&store) as _,
            limiter: Arc::clone(&store) as _,
            clock: Arc::new(ManualClock::new()),
            process: "process".into(),
        };
        let action = TriggerAction {
            name: "ci".to_owned(),
            target: Place::new(DOOR, "42"),
            prompt: "What broke?".to_owned(),
            per_hour: 10,
            tools: false,
            model: None,
        };
        let fire = || Fire::new(Cause::Webhook, &action, b"delivery 1", "What broke?", BEGINNING);
        let remembered = Some(Duration::from_secs(3_600));
        assert_eq!(hooks.take(fire(), remembered).await.status(), StatusCode::ACCEPTED);
        // The claim of the first delivery is over.
        tokio::time::advance(domain::fire::CLAIM * 2).await;
        for failing in 1..=2 {
            store.failing_reads.store(failing, Ordering::SeqCst);
            let answer = hooks.take(fire(), remembered).await;
            store.failing_reads.store(0, Ordering::SeqCst);
            // The first read fails, and the second one finds the delivery.
            let expected = if failing == 1 { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            assert_eq!(answer.status(), expected);
            assert_eq!(answer.headers().contains_key(header::RETRY_AFTER), failing == 2);
        }
        assert_eq!(hooks.take(fire(), remembered).await.status(), StatusCode::OK, "it is known again");
        assert_eq!(taken.0.lock().len(), 1);
    }
}
