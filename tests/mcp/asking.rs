//! A server of the official Python SDK that asks the member for whom a call runs.

use std::sync::Arc;

use domain::question::{Ask, FieldKind, Question};
use domain::tool::ToolRequest;
use domain::tool::begun::{CallReply, InputRequired, Step};
use ports::ToolServer;
use serde_json::{Map, Value, json};

use crate::support::{connect, python, request, root, stdio};

async fn asking() -> Arc<dyn ToolServer> {
    let script = root().join("tests/mcp/servers/asking.py");
    let server = connect(&stdio(&python("python3"), &[script.to_str().unwrap()])).await;
    assert_eq!(server.info().protocol, "2026-07-28");
    server
}

/// Calls a tool that asks.
async fn asks(server: &Arc<dyn ToolServer>, tool: &str, arguments: Value) -> InputRequired {
    match server.step(&request(tool, arguments), None).await.unwrap() {
        CallReply::Asks(asked) => asked,
        other => panic!("it does not ask: {other:?}"),
    }
}

/// Makes the call again with this answer to its only question.
async fn answered(
    server: &Arc<dyn ToolServer>,
    (tool, arguments): (&str, Value),
    asked: InputRequired,
    answer: Value,
) -> String {
    let key = asked.keys().next().unwrap().clone();
    let step = Step::Again { answers: Map::from_iter([(key, answer)]), state: asked.state };
    let reply = server.step(&ToolRequest { step, ..request(tool, arguments) }, None).await.unwrap();
    reply.into_result().unwrap().to_text()
}

#[tokio::test]
async fn a_form_of_the_python_sdk_is_read_answered_and_declined() {
    let server = asking().await;
    let hotel = || json!({"hotel": "Sea View"});
    let asked = asks(&server, "book", hotel()).await;
    let [Question { message, ask: Ask::Form(form), .. }] = asked.questions.as_slice() else { panic!("{asked:?}") };
    assert_eq!(message, "Where to?");
    let fields: Vec<(&str, bool)> = form.fields.iter().map(|field| (&*field.name, field.required)).collect();
    assert_eq!(fields, [("city", true), ("nights", true)]);
    assert!(matches!(form.fields[1].kind, FieldKind::Number { .. }), "{:?}", form.fields[1]);
    let answer = json!({"action": "accept", "content": {"city": "Rome", "nights": 2}});
    let told = answered(&server, ("book", hotel()), asked, answer).await;
    assert!(told.contains("booked Sea View in Rome for 2 nights"), "{told}");
    let asked = asks(&server, "book", hotel()).await;
    let told = answered(&server, ("book", hotel()), asked, json!({"action": "decline"})).await;
    assert!(told.contains("not booked: decline"), "{told}");
    server.close().await;
}

#[tokio::test]
async fn a_link_of_the_python_sdk_returns_the_consent_and_a_secret_in_a_form_is_declined() {
    let server = asking().await;
    let asked = asks(&server, "pay", json!({})).await;
    let [Question { ask: Ask::Link(link), .. }] = asked.questions.as_slice() else { panic!("{asked:?}") };
    assert_eq!((&*link.host, &*link.url), ("pay.example", "https://pay.example/now?x=1"));
    let told = answered(&server, ("pay", json!({})), asked, json!({"action": "accept"})).await;
    assert!(told.contains("unpaid, then accept"), "{told}");
    let asked = asks(&server, "enter", json!({})).await;
    assert_eq!(asked.questions, [], "no person sees it");
    let answer = asked.answers.values().next().unwrap().clone();
    let told = answered(&server, ("enter", json!({})), asked, answer).await;
    assert!(told.contains("entered: decline"), "{told}");
    server.close().await;
}
