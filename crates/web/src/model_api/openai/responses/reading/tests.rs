use super::*;

fn read(body: Value) -> Result<ResponseRequest, Failure> {
    serde_json::from_value::<CreateRequest>(body).unwrap().read()
}

fn with(key: &str, value: Value) -> Result<ResponseRequest, Failure> {
    let mut body = json!({"model": "m", "input": "hi"});
    body[key] = value;
    read(body)
}

#[test]
fn items_become_the_conversation_that_they_tell() {
    let asked = with(
        "input",
        json!([
            {"role": "developer", "content": "be brief"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
             "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a boat"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sea"}]},
        ]),
    );
    let messages = asked.unwrap().conversation.messages;
    let told: Vec<_> =
        messages.iter().map(|message| (message.role, message.text.as_str(), message.calls.len())).collect();
    assert_eq!(
        told,
        [
            (Role::System, "be brief", 0),
            (Role::User, "look", 0),
            (Role::Assistant, "I look.", 2),
            (Role::Tool, "a boat", 0),
            (Role::Tool, "sea", 0),
        ]
    );
    assert_eq!(messages[4].result_of.as_deref(), Some("c2"));
}

#[test]
fn parameters_are_read_repeated_and_named_where_they_are_left_out() {
    let asked = read(json!({
        "input": "hi", "instructions": "be brief", "previous_response_id": "resp_1", "store": false, "stream": true,
        "text": {"format": {"type": "json_schema", "name": "Tide", "schema": {"type": "object"}, "strict": true},
                 "verbosity": "low"},
        "tools": [{"type": "web_search", "name": 7}, {"type": "function", "name": "look", "strict": true,
                   "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "look"}, "max_output_tokens": 9, "metadata": {"a": "b"},
        "reasoning": {"effort": "low"}, "truncation": "disabled", "background": false,
    }));
    let ResponseRequest { conversation, previous, stream, store, ignored, echo, .. } = asked.unwrap();
    assert_eq!((previous.as_deref(), stream, store), (Some("resp_1"), true, false));
    assert_eq!(ignored.names(), ["reasoning", "text.verbosity", "tools of type web_search", "tools.strict"]);
    assert_eq!((conversation.tools.len(), conversation.sampling.max_tokens), (1, Some(9)));
    assert_eq!(conversation.form.unwrap().name, "Tide");
    let echo = serde_json::to_value(echo).unwrap();
    assert_eq!((&echo["instructions"], &echo["metadata"]["a"]), (&json!("be brief"), &json!("b")));
    assert_eq!((&echo["tools"][0]["name"], &echo["text"]["format"]["name"]), (&json!("look"), &json!("Tide")));
}

#[test]
fn a_compacted_conversation_is_told_as_its_summary() {
    let item = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": compacted("They met.")});
    let messages = with("input", json!([item, {"role": "user", "content": "go on"}])).unwrap().conversation.messages;
    assert_eq!((messages[0].role, messages[0].text.as_str()), (Role::System, &*format!("{SUMMARY}\n\nThey met.")));
}

#[test]
fn pictures_belong_to_the_message_that_holds_them() {
    let url = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
    let part = json!({"type": "input_image", "image_url": url, "detail": "high"});
    let item = |role: &str| json!([{"role": role, "content": [{"type": "input_text", "text": "which?"}, part]}]);
    let ResponseRequest { conversation, ignored, .. } = with("input", item("user")).unwrap();
    assert_eq!((conversation.question(), conversation.pictures().count()), ("which?", 1));
    assert_eq!(ignored.names(), ["image_url.detail"]);
    assert!(with("input", item("developer")).is_err());
}

#[test]
fn files_stay_with_their_message_until_they_are_read() {
    let part = json!({"type": "input_file", "filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"});
    let call = json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"});
    let item = |role: &str| json!([{"role": "assistant", "content": "see"}, call, {"role": role, "content": [part]}]);
    let ResponseRequest { conversation, files, .. } = with("input", item("user")).unwrap();
    assert_eq!((conversation.messages.len(), files.len()), (2, 1), "the call is a part of the message before it");
    assert_eq!((files[0].message, files[0].place.as_str()), (1, "input[2].content"));
    assert_eq!((files[0].sent.file.name.as_str(), files[0].sent.bytes.as_slice()), ("a.csv", &b"a,b"[..]));
    assert!(with("input", item("developer")).is_err());
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let metadata: BTreeMap<String, String> =
        (0..=METADATA_MAX).map(|number| (number.to_string(), String::new())).collect();
    for (key, value, place) in [
        ("input", json!(null), "input"),
        ("input", json!([]), "input"),
        ("input", json!([{"type": "reasoning"}]), "input"),
        ("input", json!([{"role": "robot", "content": "x"}]), "input[0].role"),
        ("input", json!([{"role": "user"}]), "input[0].content"),
        ("input", json!([{"role": "user", "content": [{"type": "input_image"}]}]), "input[0].content"),
        ("input", json!([{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]), "input[0].content"),
        ("input", json!([{"type": "computer_call", "id": "cu_1"}]), "input[0].type"),
        ("input", json!([{"type": "function_call_output", "output": "x"}]), "input[0].call_id"),
        ("background", json!(true), "background"),
        ("conversation", json!("conv_1"), "conversation"),
        ("metadata", json!(metadata), "metadata"),
        ("max_output_tokens", json!(0), "max_output_tokens"),
        ("input", json!([{"type": "compaction", "encrypted_content": "gAAAA"}]), "input[0].encrypted_content"),
        ("tools", json!([{"type": "function", "name": 7}]), "tools[0]"),
        ("tools", json!([{"type": "function", "name": "a b"}]), "tools[0].name"),
        ("tool_choice", json!("required"), "tool_choice"),
        ("text", json!({"format": {"type": "json_schema"}}), "text.format.name"),
    ] {
        match with(key, value.clone()) {
            Err(Failure::Bad { place: Some(found), .. }) => assert_eq!(found, place),
            other => panic!("{key} {value}: {other:?}"),
        }
    }
}
