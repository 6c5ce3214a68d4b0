use std::sync::Arc;

use serde_json::json;

use super::*;
use domain::completion::{InputFile, Picture, Role, ToolCall, WrittenJson};

const PICTURES: Accepts = Accepts { pictures: true, pdf: false };
const NOTHING: Accepts = Accepts { pictures: false, pdf: false };

fn sent(request: &Request, accepts: Accepts) -> Value {
    sent_to(&Model { accepts, ..MODEL }, request)
}

fn sent_to(model: &Model<'_>, request: &Request) -> Value {
    serde_json::to_value(Body::new(model, request, false)).unwrap()
}

fn marked_body(request: &Request) -> Value {
    let mut body = Body::new(&MODEL, request, false);
    body.mark();
    serde_json::to_value(body).unwrap()
}

const MODEL: Model<'static> = Model {
    name: "m",
    temperature: Temperature::Usual(None),
    effort: None,
    takes_form: true,
    accepts: NOTHING,
    keeps_reasoning: true,
    hosting: None,
    max_tokens: None,
};

fn with_picture() -> Request {
    let about = "cat.png (image/png, 2 x 2 pixels)".to_owned();
    let picture = Picture { about, mime: "image/png", bytes: Arc::from(&b"\x89PNG"[..]) };
    let item = Item { pictures: vec![picture], ..Item::new(Role::User, "what is it?") };
    Request { messages: vec![Item::new(Role::System, "be brief"), item], ..Request::default() }
}

#[test]
fn a_model_that_sees_gets_the_picture_itself() {
    let body = sent(&with_picture(), PICTURES);
    assert_eq!(body["messages"][0]["content"], "be brief");
    let parts = json!([
        {"type": "text", "text": "what is it?\n[Attached picture cat.png (image/png, 2 x 2 pixels).]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]);
    assert_eq!(body["messages"][1], json!({"role": "user", "content": parts}));
}

#[test]
fn a_model_that_does_not_see_is_told_of_it() {
    let body = sent(&with_picture(), NOTHING);
    let told = "what is it?\n[Attached picture cat.png (image/png, 2 x 2 pixels), which you cannot see.]";
    assert_eq!(body["messages"][1], json!({"role": "user", "content": told}));
    assert!(with_picture().chars(PICTURES) > with_picture().chars(NOTHING) + 3_000);
}

#[test]
fn a_model_that_accepts_pdf_files_gets_the_file_and_others_its_text() {
    let (name, about) = ("tides.pdf".to_owned(), "tides.pdf (PDF, 2 pages)".to_owned());
    let file = InputFile { name, about, pages: 2, bytes: Arc::from(&b"%PDF-"[..]), instead: "> high water".to_owned() };
    let item = Item { files: vec![file], ..Item::new(Role::User, "when?") };
    let request = Request { messages: vec![item], ..Request::default() };
    let pdf = Accepts { pictures: false, pdf: true };
    let parts = json!([
        {"type": "text", "text": "when?\n[Attached file tides.pdf (PDF, 2 pages).]"},
        {"type": "file", "file": {"filename": "tides.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
    ]);
    assert_eq!(sent(&request, pdf)["messages"][0]["content"], parts);
    assert_eq!(sent(&request, PICTURES)["messages"][0]["content"], "when?\n\n> high water");
    assert!(request.chars(pdf) > request.chars(PICTURES) + 6_000, "its pages count");
}

#[test]
fn tools_are_offered_with_an_explicit_choice_and_results_name_their_call() {
    let plain = sent(&with_picture(), NOTHING);
    assert!(plain.get("tools").is_none() && plain.get("tool_choice").is_none());
    let parameters = json!({"type": "object", "properties": {}});
    let written = WrittenJson::new(&parameters);
    let tool = Arc::new(ToolSpec { name: "roll".into(), description: "Rolls.".into(), parameters: written });
    let call = ToolCall { id: "c1".into(), name: "roll".into(), arguments: "{}".into() };
    let messages = vec![Item::new(Role::User, "roll"), Item::result(&call, "4")];
    let body = sent(&Request { messages, tools: vec![tool], ..Request::default() }, NOTHING);
    let function = json!({"name": "roll", "description": "Rolls.", "parameters": parameters});
    assert_eq!(body["tools"], json!([{"type": "function", "function": function}]));
    assert_eq!(body["tool_choice"], "auto");
    assert_eq!(body["messages"][1], json!({"role": "tool", "content": "4", "tool_call_id": "c1"}));
}

#[test]
fn neighbours_of_one_role_become_one_message() {
    let call = ToolCall { id: "c1".into(), name: "roll".into(), arguments: "{}".into() };
    let raw = json!({"role": "user", "content": "as it came"});
    let messages = vec![
        Item::new(Role::System, "be brief"),
        Item::new(Role::User, "[Quoted message]"),
        Item::new(Role::User, "what is it?"),
        Item::new(Role::Assistant, "one"),
        Item::new(Role::Assistant, "two"),
        Item::result(&call, "4"),
        Item::result(&call, "5"),
        Item { raw: Some(raw.clone().into()), ..Item::new(Role::User, "the view") },
        Item::new(Role::User, "and?"),
    ];
    let body = sent(&Request { messages, ..Request::default() }, NOTHING);
    let contents: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["be brief", "[Quoted message]\n\nwhat is it?", "one\n\ntwo", "4", "5", "as it came", "and?"]);

    let mut seen = with_picture();
    seen.messages.push(Item::new(Role::User, "well?"));
    let body = sent(&seen, PICTURES);
    let kinds: Vec<&str> =
        body["messages"][1]["content"].as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap()).collect();
    assert_eq!((kinds, body["messages"].as_array().unwrap().len()), (vec!["text", "image_url", "text"], 2));
}

#[test]
fn a_row_that_wants_marks_gets_them_where_prompts_begin_alike() {
    let messages = ["be brief", "one", "two", "and three?"];
    let roles = [Role::System, Role::User, Role::Assistant, Role::User];
    let messages = roles.into_iter().zip(messages).map(|(role, text)| Item::new(role, text)).collect();
    let request = Request { messages, ..Request::default() };
    let body = marked_body(&request);
    let marked = |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    let contents: Vec<&Value> =
        body["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, [&marked("be brief"), &json!("one"), &marked("two"), &json!("and three?")]);
    let short = Request { messages: vec![Item::new(Role::System, "be brief"), Item::new(Role::User, "hi")], ..request };
    let body = marked_body(&short);
    assert_eq!((&body["messages"][0]["content"], &body["messages"][1]["content"]), (&marked("be brief"), &json!("hi")));
}

#[test]
fn the_limit_of_tokens_has_the_name_that_the_provider_knows() {
    let request = Request { messages: vec![Item::new(Role::User, "hi")], ..Request::default() };
    for (limit, name, other) in [
        (TokenLimit::MaxTokens(7), "max_tokens", "max_completion_tokens"),
        (TokenLimit::MaxCompletionTokens(7), "max_completion_tokens", "max_tokens"),
    ] {
        let body = sent_to(&Model { max_tokens: Some(limit), ..MODEL }, &request);
        assert_eq!((&body[name], body.get(other)), (&json!(7), None));
    }
}

#[test]
fn no_empty_text_is_sent() {
    let call = ToolCall { id: "a".to_owned(), name: "roll".to_owned(), arguments: "{}".to_owned() };
    let items = [
        Item::new(Role::User, ""),
        Item { calls: vec![call], ..Item::new(Role::Assistant, "") },
        Item { result_of: Some("a".to_owned()), ..Item::new(Role::Tool, "") },
    ];
    let told: Vec<serde_json::Value> =
        items.iter().map(|item| serde_json::to_value(Message::of(item, PICTURES)).unwrap()).collect();
    assert_eq!((&told[0]["content"], &told[1]["content"]), (&"(empty)".into(), &serde_json::Value::Null));
    assert_eq!(told[2]["content"], "(empty)");
}
