use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::Value;
use tower::Service;

use super::*;
use crate::domain::gate::Decision;
use crate::domain::ids::Person;
use crate::ports::{Batch, Clock};

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }
}

/// Takes nothing.
struct Closed;

#[async_trait]
impl Intake for Closed {
    async fn accept(&self, _incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
        Err(NotAccepted)
    }

    async fn decide(&self, _click: Click) -> Result<Decision, Refusal> {
        Err(Refusal::Unknown)
    }
}

/// Keeps nothing.
struct Silent;

impl TurnEventLog for Silent {
    fn open(&self, _place: &Place) {}

    fn close(&self, _place: &Place) {}

    fn read(&self, _place: &Place, _after: u64) -> Option<Batch> {
        None
    }
}

async fn ask(method: &str, path: &str, body: &str) -> Response {
    let mut routes = router(Arc::new(Sessions::new(Arc::new(Still))), Arc::new(Closed), Arc::new(Silent));
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answered: Result<Response, Infallible> = routes.call(request.body(Body::from(body.to_owned())).unwrap()).await;
    answered.unwrap()
}

fn document() -> Value {
    serde_json::from_str(include_str!("../openapi.json")).unwrap()
}

/// The methods of each path in the document.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let methods = |path: &Value| path.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
    document()["paths"].as_object().unwrap().iter().map(|(path, of)| (path.clone(), methods(of))).collect()
}

#[tokio::test]
async fn the_document_describes_the_routes_and_no_others() {
    let source = include_str!("../routes.rs");
    let routes: BTreeSet<&str> = source.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(described().keys().map(String::as_str).collect::<BTreeSet<_>>(), routes);
    for (path, methods) in described() {
        let answer = ask("TRACE", &path.replace(['{', '}'], ""), "").await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let allowed = answer.headers()["allow"].to_str().unwrap().split(',').map(str::to_owned);
        assert_eq!(allowed.filter(|method| method != "HEAD").collect::<BTreeSet<_>>(), methods, "{path}");
    }
}

#[tokio::test]
async fn what_the_document_refers_to_is_there() {
    let (document, text) = (document(), include_str!("../openapi.json"));
    for name in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_its_status() {
    for (method, path, body, status) in [
        ("POST", "/api/v1/submit", "{}", 422),
        ("POST", "/api/v1/submit", r#"{"session": "a b", "text": "x"}"#, 400),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "x", "busy": "never"}"#, 422),
        ("POST", "/api/v1/submit", r#"{"session": "a", "text": "x"}"#, 503),
        ("GET", "/api/v1/stream/a", "", 404),
        ("GET", "/api/v1/sessions/a", "", 404),
        ("DELETE", "/api/v1/sessions/101", "", 404),
        ("DELETE", "/api/v1/messages/1", "", 503),
        ("POST", "/api/v1/gate/x", r#"{"approve": true}"#, 404),
    ] {
        let answer = ask(method, path, body).await;
        assert_eq!(answer.status().as_u16(), status, "{method} {path} {body}");
        assert_eq!(answer.headers()["content-type"], "application/problem+json", "{method} {path} {body}");
        let body: Value = serde_json::from_slice(&to_bytes(answer.into_body(), 10_000).await.unwrap()).unwrap();
        assert_eq!((body["status"].as_u64(), body["detail"].is_string()), (Some(u64::from(status)), true));
    }
}
