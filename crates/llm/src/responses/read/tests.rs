use super::*;

fn read_ok(answer: Value) -> Completion {
    read(answer, &|| 40).unwrap()
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc", "call_id": id, "name": "roll", "arguments": arguments})
}

#[test]
fn a_whole_answer_is_read_with_its_usage_and_its_items_are_kept() {
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    let message = json!({"type": "message", "id": "msg", "role": "assistant", "status": "completed",
        "content": [part("Hel"), part("lo")]});
    let future = json!({"type": "of_the_future", "id": "x", "nested": {"kept": [1]}});
    let output = json!([reasoning, message, future]);
    let usage = json!({"input_tokens": 90, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 25}, "total_tokens": 120});
    let read =
        read_ok(json!({"object": "response", "status": "completed", "error": null, "output": output, "usage": usage}));
    assert_eq!((read.content.as_str(), read.finish, read.calls), ("Hello", Finish::Stop, vec![]));
    assert_eq!(read.raw.to_value(), output);
    let usage = read.usage;
    assert_eq!((usage.prompt, usage.cached, usage.completion, usage.estimated), (90, 64, 30, false));
}

#[test]
fn each_call_has_a_name_an_id_of_its_own_and_arguments_that_can_be_sent_back() {
    let nameless = json!({"type": "function_call", "call_id": "n", "arguments": "{}"});
    let parsed = json!({"type": "function_call", "call_id": "p", "name": "roll", "arguments": {"sides": 6}});
    let output = json!([call("a", "{\"sides\": 6}"), call("a", "not JSON"), nameless, parsed, call("", "{}")]);
    let read = read_ok(json!({"status": "completed", "output": output}));
    let told: Vec<_> = read.calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    let same = [("a", "{\"sides\": 6}"), ("call_1_roll", "not JSON"), ("p", "{\"sides\":6}"), ("fc", "{}")];
    assert_eq!((told.as_slice(), read.finish), (same.as_slice(), Finish::ToolCalls));
    let echoed: Vec<_> = read.raw.to_value().as_array().unwrap().iter().map(|item| item["arguments"].clone()).collect();
    assert_eq!(echoed, ["{\"sides\": 6}", "{}", "{\"sides\":6}", "{}"]);
}

#[test]
fn calls_beyond_the_bound_are_dropped_with_their_items() {
    let output: Vec<Value> = (0..CALLS_MAX + 9).map(|n| call(&n.to_string(), "{}")).collect();
    let read = read_ok(json!({"status": "completed", "output": output}));
    assert_eq!((read.calls.len(), read.raw.to_value().as_array().unwrap().len()), (CALLS_MAX, CALLS_MAX));
}

#[test]
fn refusals_commentary_and_cut_answers_are_told_apart() {
    let message = |content: Value| json!({"type": "message", "role": "assistant", "content": content});
    let refused =
        read_ok(json!({"status": "completed", "output": [message(json!([{"type": "refusal", "refusal": "No."}]))]}));
    assert_eq!((refused.refusal.as_deref(), refused.content.as_str()), (Some("No."), ""));

    let said = |phase: &str, text: &str| json!({"type": "message", "role": "assistant", "phase": phase, "content": [{"type": "output_text", "text": text}]});
    let both = json!([said("commentary", "I look it up."), said("final_answer", "Four.")]);
    assert_eq!(read_ok(json!({"status": "completed", "output": both})).content, "Four.");
    let only = json!([said("commentary", "I look it up.")]);
    assert_eq!(read_ok(json!({"status": "completed", "output": only})).content, "I look it up.");

    for (details, finish) in [
        (json!({"reason": "max_output_tokens"}), Finish::Length),
        (json!({"reason": "content_filter"}), Finish::Filtered),
        (json!({"reason": "of the future"}), Finish::Other("of the future".into())),
        (json!(null), Finish::Other("incomplete".into())),
    ] {
        let answer = json!({"status": "incomplete", "incomplete_details": details, "output": [said("", "Fo")]});
        let read = read_ok(answer);
        assert_eq!((read.content.as_str(), read.finish), ("Fo", finish));
    }
}

#[test]
fn reasoning_that_cannot_be_sent_back_is_dropped_with_the_ids_that_belong_to_it() {
    let lost = json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]});
    let message =
        json!({"type": "message", "id": "msg", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]});
    let read = read_ok(json!({"status": "completed", "output": [lost, message, call("c", "{}")]}));
    let kept = json!([
        {"type": "message", "role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c", "name": "roll", "arguments": "{}"},
    ]);
    assert_eq!(read.raw.to_value(), kept);
    // Open models write their reasoning in the clear.
    let clear =
        json!({"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let read = read_ok(json!({"status": "completed", "output": [clear.clone(), call("c", "{}")]}));
    assert_eq!(read.raw.to_value(), json!([clear, call("c", "{}")]));
}

#[test]
fn what_is_no_answer_is_an_error() {
    for (answer, kind) in [
        (json!([]), ModelErrorKind::Malformed),
        (json!({"choices": []}), ModelErrorKind::Malformed),
        (json!({"status": "failed", "output": []}), ModelErrorKind::Provider),
        (json!({"status": "cancelled", "output": []}), ModelErrorKind::Provider),
        (json!({"output": [call("c", "{\"half\": ")]}), ModelErrorKind::Malformed),
    ] {
        assert_eq!(read(answer.clone(), &|| 0).unwrap_err().kind, kind, "{answer}");
    }
    // Fields of unexpected kinds are no mistake.
    let odd = json!({"status": 7, "usage": [], "output": [1, null, {"type": 3}, {"type": "message", "content": 4}]});
    assert_eq!(read_ok(odd).content, "");
}

#[test]
fn the_use_of_the_providers_own_tools_is_read_and_an_approval_is_refused() {
    let citation = |url: &str| json!({"type": "url_citation", "url": url, "title": "Tides"});
    let part = json!({"type": "output_text", "text": "nine", "annotations": [citation("https://a"), {"type": "file_citation"}, 7]});
    let output = json!([
        {"type": "web_search_call", "status": "completed", "action": {"query": "tides"}},
        {"type": "mcp_list_tools", "server_label": "docs", "error": "unreachable", "tools": []},
        {"type": "mcp_call", "server_label": "docs", "name": "read", "arguments": "{}", "error": null, "output": "x"},
        {"type": "mcp_approval_request", "id": "r", "server_label": "docs", "name": "write", "arguments": "{}"},
        {"type": "message", "content": [part]},
    ]);
    let read = read_ok(json!({"status": "completed", "output": output}));
    let calls: Vec<_> = read.hosted.calls.iter().map(|call| (call.name(), call.end.as_str())).collect();
    let expected =
        [("web_search", "ok"), ("docs__tools/list", "failed"), ("docs__read", "ok"), ("docs__write", "denied")];
    assert_eq!(calls, expected.map(|(name, end)| (name.to_owned(), end)));
    assert_eq!(read.hosted.sources.iter().map(|source| source.url.as_str()).collect::<Vec<_>>(), ["https://a"]);
    assert!(!read.raw.as_str().contains("mcp_approval_request"), "it would wait for an answer: {}", read.raw.as_str());
}
