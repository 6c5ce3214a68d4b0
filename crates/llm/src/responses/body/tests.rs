use std::sync::Arc;

use serde_json::json;

use super::*;
use domain::completion::{InputFile, Picture};

const MODEL: Model<'static> = Model {
    name: "m",
    temperature: Temperature::Usual(Some(0.5)),
    effort: None,
    takes_form: true,
    accepts: Accepts { pictures: false, pdf: false },
    keeps_reasoning: true,
    hosting: None,
    max_tokens: Some(TokenLimit::MaxTokens(900)),
};

fn sent(model: &Model<'_>, request: &Request) -> Value {
    serde_json::to_value(Body::new(model, request, true)).unwrap()
}

fn tool() -> Arc<ToolSpec> {
    let parameters = WrittenJson::new(&json!({"type": "object", "properties": {}}));
    Arc::new(ToolSpec { name: "roll".into(), description: "Rolls.".into(), parameters })
}

#[test]
fn a_plain_question_is_one_exact_request_that_the_provider_does_not_keep() {
    let messages = vec![Item::new(Role::System, "be brief"), Item::new(Role::User, "hi")];
    let body = sent(&MODEL, &Request { messages, ..Request::default() });
    let input = json!([{"type": "message", "role": "user", "content": "hi"}]);
    let whole = json!({"model": "m", "instructions": "be brief", "input": input, "store": false, "temperature": 0.5,
        "max_output_tokens": 900, "stream": true});
    assert_eq!(body, whole);
}

#[test]
fn tools_and_the_form_have_the_shape_of_this_wire_and_reasoning_is_requested_beside_tools() {
    let form =
        AnswerForm { name: "reply".into(), description: None, strict: Some(true), schema: json!({"type": "object"}) };
    let messages = vec![Item::new(Role::User, "roll")];
    let request = Request { messages, tools: vec![tool()], form: Some(Arc::new(form)), ..Request::default() };
    let body = sent(&MODEL, &request);
    let function = json!({"type": "function", "name": "roll", "description": "Rolls.",
        "parameters": {"type": "object", "properties": {}}, "strict": false});
    assert_eq!(body["tools"], json!([function]));
    assert_eq!(body["tool_choice"], "auto");
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    let format = json!({"type": "json_schema", "name": "reply", "strict": true, "schema": {"type": "object"}});
    assert_eq!(body["text"], json!({"format": format}));

    let refused = Model { keeps_reasoning: false, takes_form: false, temperature: Temperature::Fixed, ..MODEL };
    let body = sent(&refused, &request);
    assert!(["include", "text", "temperature"].iter().all(|name| body.get(name).is_none()), "{body}");
    for (choice, written) in [
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Named("roll".into()), json!({"type": "function", "name": "roll"})),
    ] {
        assert_eq!(sent(&MODEL, &Request { choice, ..request.clone() })["tool_choice"], written);
    }
}

#[test]
fn items_of_an_earlier_answer_go_back_as_they_came_and_results_name_their_call() {
    let raw = json!([
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "roll", "arguments": "{}", "new_field": [1]},
        {"type": "of_the_future", "kept": true},
    ]);
    let call = ToolCall { id: "c1".into(), name: "roll".into(), arguments: "{}".into() };
    let echo = Item { raw: Some(raw.clone().into()), ..Item::new(Role::Assistant, "the view") };
    let messages = vec![Item::new(Role::User, "roll"), echo, Item::result(&call, "4"), Item::result(&call, "")];
    let body = sent(&MODEL, &Request { messages, ..Request::default() });
    let input = body["input"].as_array().unwrap();
    assert_eq!(json!(input[1..4]), raw);
    assert_eq!(input[4], json!({"type": "function_call_output", "call_id": "c1", "output": "4"}));
    assert_eq!(input[5]["output"], EMPTY);
}

#[test]
fn a_message_of_another_wire_is_written_anew() {
    let raw = json!({"role": "assistant", "content": "their form"});
    let echo = Item { raw: Some(raw.into()), ..Item::new(Role::Assistant, "the view") };
    let call = ToolCall { id: "c1".into(), name: "roll".into(), arguments: "{}".into() };
    let calling = Item { calls: vec![call.clone()], ..Item::new(Role::Assistant, "") };
    let messages = vec![Item::new(Role::User, "a"), echo, calling, Item::result(&call, "4")];
    let body = sent(&MODEL, &Request { messages, ..Request::default() });
    let written = json!([
        {"type": "message", "role": "user", "content": "a"},
        {"type": "message", "role": "assistant", "content": "the view"},
        {"type": "function_call", "call_id": "c1", "name": "roll", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
    ]);
    assert_eq!(body["input"], written);
}

#[test]
fn messages_of_one_role_are_one_and_pictures_reach_models_that_see() {
    let about = "cat.png (image/png, 2 x 2 pixels)".to_owned();
    let picture = Picture { about, mime: "image/png", bytes: Arc::from(&b"\x89PNG"[..]) };
    let item = Item { pictures: vec![picture], ..Item::new(Role::User, "what is it?") };
    let messages = vec![Item::new(Role::System, "a"), Item::new(Role::System, "b"), Item::new(Role::User, "c"), item];
    let request = Request { messages, ..Request::default() };
    let body = sent(&Model { accepts: Accepts { pictures: true, pdf: false }, ..MODEL }, &request);
    assert_eq!(body["instructions"], "a\n\nb");
    let parts = json!([
        {"type": "input_text", "text": "c"},
        {"type": "input_text", "text": "what is it?\n[Attached picture cat.png (image/png, 2 x 2 pixels).]"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"},
    ]);
    assert_eq!(body["input"], json!([{"type": "message", "role": "user", "content": parts}]));
    let blind = sent(&MODEL, &request);
    let told = "c\n\nwhat is it?\n[Attached picture cat.png (image/png, 2 x 2 pixels), which you cannot see.]";
    assert_eq!(blind["input"][0]["content"], told);
}

#[test]
fn a_pdf_file_reaches_models_that_accept_it_before_the_pictures() {
    let (name, about) = ("tides.pdf".to_owned(), "tides.pdf (PDF, 2 pages)".to_owned());
    let file = InputFile { name, about, pages: 2, bytes: Arc::from(&b"%PDF-"[..]), instead: "> high water".to_owned() };
    let picture = Picture { about: String::new(), mime: "image/png", bytes: Arc::from(&b"\x89PNG"[..]) };
    let item = Item { files: vec![file], pictures: vec![picture], ..Item::new(Role::User, "when?") };
    let request = Request { messages: vec![item], ..Request::default() };
    let body = sent(&Model { accepts: Accepts { pictures: true, pdf: true }, ..MODEL }, &request);
    let parts = json!([
        {"type": "input_text", "text": "when?\n[Attached file tides.pdf (PDF, 2 pages).]"},
        {"type": "input_file", "filename": "tides.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"},
    ]);
    assert_eq!(body["input"][0]["content"], parts);
}

#[test]
fn an_input_is_never_empty() {
    let body = sent(&MODEL, &Request { messages: vec![Item::new(Role::System, "say hi")], ..Request::default() });
    assert_eq!(body["input"], json!([{"type": "message", "role": "system", "content": "say hi"}]));
    assert!(body.get("instructions").is_none());
    let body = sent(&MODEL, &Request { messages: vec![Item::new(Role::User, "")], ..Request::default() });
    assert_eq!(body["input"][0]["content"], EMPTY);
}
