use super::*;

fn read(body: Value) -> Result<OpenAiRequest, Failure> {
    serde_json::from_value::<ChatRequest>(body).unwrap().read()
}

fn with(key: &str, value: Value) -> Result<OpenAiRequest, Failure> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body[key] = value;
    read(body)
}

#[test]
fn a_conversation_with_calls_is_read_as_it_is() {
    let asked = read(json!({
        "model": "fast",
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "text", "text": "there"}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "a boat"},
        ],
        "tools": [{"type": "function", "function": {"name": "look"}}],
        "stream": true, "stream_options": {"include_usage": true}, "seed": 7, "logprobs": false,
        "stop": "END", "temperature": 0.5, "max_tokens": 9, "user": "someone",
    }));
    let OpenAiRequest { conversation, stream, usage, ignored, files } = asked.unwrap();
    assert!(stream && usage && conversation.has_instructions() && files.is_empty());
    assert_eq!(ignored.names(), ["seed"]);
    assert_eq!((conversation.question(), conversation.messages[2].calls.len()), ("look\nthere", 1));
    assert_eq!(conversation.messages[3].result_of.as_deref(), Some("c1"));
    assert_eq!(
        (conversation.sampling.stop.as_slice(), conversation.sampling.max_tokens),
        (&["END".to_owned()][..], Some(9))
    );
}

const GIF: &str = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";

#[test]
fn pictures_belong_to_the_message_that_holds_them() {
    let asked = with(
        "messages",
        json!([{"role": "user", "content": [
            {"type": "text", "text": "which?"},
            {"type": "image_url", "image_url": {"url": GIF, "detail": "low"}},
            {"type": "image_url", "image_url": {"url": GIF}},
        ]}]),
    );
    let OpenAiRequest { conversation, ignored, .. } = asked.unwrap();
    assert_eq!((conversation.question(), conversation.pictures().count()), ("which?", 2));
    assert_eq!(ignored.names(), ["image_url.detail"]);
}

#[test]
fn files_stay_with_their_message_until_they_are_read() {
    let file = json!({"type": "file", "file": {"filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"}});
    let text = json!({"type": "text", "text": "which?"});
    let asked = |role: &str| {
        with("messages", json!([{"role": "user", "content": "hi"}, {"role": role, "content": [text, file]}]))
    };
    let OpenAiRequest { conversation, files, .. } = asked("user").unwrap();
    assert_eq!(conversation.question(), "which?");
    let told: Vec<_> =
        files.iter().map(|file| (file.message, file.place.as_str(), file.sent.bytes.as_slice())).collect();
    assert_eq!(told, [(1, "messages[1].content", &b"a,b"[..])]);
    for refused in [asked("developer"), with("messages", json!([{"role": "user", "content": [{"type": "file"}]}]))] {
        assert!(matches!(refused, Err(Failure::Bad { place: Some(place), .. }) if place.ends_with(".content")));
    }
}

#[test]
fn what_is_left_out_of_tools_and_messages_is_named() {
    let look = json!({"type": "function", "function": {"name": "look", "strict": true}});
    let other = json!({"type": "function", "function": {"name": "hear"}});
    let request = |choice: Value| {
        read(json!({
            "messages": [{"role": "user", "name": "ann", "content": "hi"}], "parallel_tool_calls": false,
            "functions": [{"name": "old"}], "tool_choice": choice,
            "tools": [look, other, {"type": "web_search"}, {"type": "namespace", "name": "x", "function": 1}],
        }))
        .unwrap()
    };
    let OpenAiRequest { conversation, ignored, .. } = request(Value::Null);
    let named = ["functions", "parallel_tool_calls", "messages.name", "tools.strict", "tools of type web_search"];
    assert_eq!(ignored.names(), [&named[..], &["tools of type namespace"]].concat());
    assert_eq!(conversation.tools.len(), 2);
    let listed = json!([{"type": "function", "function": {"name": "hear"}}]);
    for (mode, wanted) in [("auto", ToolChoice::Auto), ("required", ToolChoice::Required)] {
        let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": listed}});
        let OpenAiRequest { conversation, .. } = request(choice);
        let names: Vec<&str> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, conversation.choice), (vec!["hear"], wanted));
    }
    let none = request(json!({"type": "allowed_tools", "tools": [], "mode": "auto"})).conversation;
    assert!(none.tools.is_empty() && !none.takes_our_tools());
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (key, value, place) in [
        ("n", json!(2), "n"),
        ("messages", json!([]), "messages"),
        ("messages", json!([{"role": "robot", "content": "x"}]), "messages[0].role"),
        ("messages", json!([{"role": "user"}]), "messages[0].content"),
        ("messages", json!([{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content"),
        ("messages", json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
        ("stop", json!([""]), "stop"),
        ("temperature", json!(3), "temperature"),
        ("max_tokens", json!(0), "max_tokens"),
        (
            "messages",
            json!([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": GIF}}]}]),
            "messages[0].content",
        ),
        ("tools", json!([{"type": "function"}]), "tools[0].function"),
        ("tool_choice", json!({"type": "allowed_tools", "tools": [], "mode": "required"}), "tool_choice.tools"),
        ("tools", json!([{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
        ("tool_choice", json!("required"), "tool_choice"),
        ("response_format", json!({"type": "json_schema"}), "response_format.json_schema"),
    ] {
        match with(key, value.clone()) {
            Err(Failure::Bad { place: Some(found), .. }) => assert_eq!(found, place),
            other => panic!("{key} {value}: {other:?}"),
        }
    }
}
