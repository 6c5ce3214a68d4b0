use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::domain::completion::{Role, ToolCall};

fn sent(request: &Request, sees: bool) -> Value {
    let model = Model { name: "m", temperature: None, takes_form: true, sees };
    serde_json::to_value(Body::new(&model, request, false)).unwrap()
}

fn with_picture() -> Request {
    let about = "cat.png (image/png, 2 x 2 pixels)".to_owned();
    let picture = Picture { about, mime: "image/png", bytes: Arc::from(&b"\x89PNG"[..]) };
    let item = Item { pictures: vec![picture], ..Item::new(Role::User, "what is it?") };
    Request { messages: vec![Item::new(Role::System, "be brief"), item], ..Request::default() }
}

#[test]
fn a_model_that_sees_gets_the_picture_itself() {
    let body = sent(&with_picture(), true);
    assert_eq!(body["messages"][0]["content"], "be brief");
    let parts = json!([
        {"type": "text", "text": "what is it?\n[Attached picture cat.png (image/png, 2 x 2 pixels).]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]);
    assert_eq!(body["messages"][1], json!({"role": "user", "content": parts}));
}

#[test]
fn a_model_that_does_not_see_is_told_of_it() {
    let body = sent(&with_picture(), false);
    let told = "what is it?\n[Attached picture cat.png (image/png, 2 x 2 pixels), which you cannot see.]";
    assert_eq!(body["messages"][1], json!({"role": "user", "content": told}));
    assert!(prompt_chars(&with_picture(), true) > prompt_chars(&with_picture(), false) + 3_000);
}

#[test]
fn tools_are_offered_with_an_explicit_choice_and_results_name_their_call() {
    let plain = sent(&with_picture(), false);
    assert!(plain.get("tools").is_none() && plain.get("tool_choice").is_none());
    let parameters = Arc::new(json!({"type": "object", "properties": {}}));
    let tool = ToolSpec { name: "roll".into(), description: "Rolls.".into(), parameters: Arc::clone(&parameters) };
    let call = ToolCall { id: "c1".into(), name: "roll".into(), arguments: "{}".into() };
    let messages = vec![Item::new(Role::User, "roll"), Item::result(&call, "4")];
    let body = sent(&Request { messages, tools: vec![tool], ..Request::default() }, false);
    let function = json!({"name": "roll", "description": "Rolls.", "parameters": *parameters});
    assert_eq!(body["tools"], json!([{"type": "function", "function": function}]));
    assert_eq!(body["tool_choice"], "auto");
    assert_eq!(body["messages"][1], json!({"role": "tool", "content": "4", "tool_call_id": "c1"}));
}
