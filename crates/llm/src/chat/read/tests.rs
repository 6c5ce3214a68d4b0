use serde_json::json;

use super::*;
use domain::completion::Usage;

/// The length of the prompt, in characters.
const PROMPT: usize = 400;

fn reading(text: &str) -> Completion {
    read(serde_json::from_str(text).unwrap(), &|| PROMPT).unwrap()
}

fn answer(message: &Value) -> Value {
    json!({"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
}

fn message_of(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap().pointer("/choices/0/message").unwrap().clone()
}

#[test]
fn openai() {
    let text = include_str!("../../fixtures/openai.json");
    let usage = Usage { prompt: 2006, completion: 4, cached: 1920, estimated: false };
    let whole = Completion {
        content: "Good morning.".into(),
        refusal: None,
        calls: Vec::new(),
        finish: Finish::Stop,
        hosted: HostedUse::default(),
        usage,
        raw: message_of(text).into(),
    };
    assert_eq!(reading(text), whole);
}

#[test]
fn litellm_keeps_fields_that_we_do_not_know() {
    let text = include_str!("../../fixtures/litellm.json");
    let usage = Usage { prompt: 410, completion: 31, cached: 300, estimated: false };
    let completion = reading(text);
    assert_eq!(
        completion.raw.to_value().pointer("/provider_specific_fields/thinking_blocks/0/signature"),
        Some(&json!("c2ln"))
    );
    let calls = completion.calls.clone();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let raw = message_of(text);
    assert_eq!(raw.pointer("/tool_calls/0/function/arguments"), Some(&json!(calls[0].arguments)));
    let whole = Completion {
        content: String::new(),
        refusal: None,
        calls,
        finish: Finish::ToolCalls,
        hosted: HostedUse::default(),
        usage,
        raw: raw.into(),
    };
    assert_eq!(completion, whole);
}

#[test]
fn calls_are_read_however_their_arguments_come() {
    let calls = json!([
        {"id": "a", "type": "function", "function": {"name": "one", "arguments": "{\"n\":1}"}},
        {"function": {"name": "two", "arguments": {"n": 2}}},
        {"id": "c", "function": {"name": "three"}},
        {"id": "d", "function": {"arguments": "{}"}},
        "nonsense",
    ]);
    let read = read(answer(&json!({"role": "assistant", "content": null, "tool_calls": calls})), &|| PROMPT).unwrap();
    let told: Vec<_> = read.calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!(told, [("a", "one", "{\"n\":1}"), ("call_1_two", "two", "{\"n\":2}"), ("c", "three", "")]);
    let ids = |completion: &Completion| {
        let calls = completion.raw.to_value()["tool_calls"].as_array().cloned().unwrap_or_default();
        calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&read), ["a", "call_1_two", "c"], "the echo has a call for each result");
    let many = vec![calls[0].clone(); 500];
    let message = json!({"role": "assistant", "content": null, "tool_calls": many});
    let read = super::read(answer(&message), &|| PROMPT).unwrap();
    assert_eq!((read.calls.len(), ids(&read).len()), (CALLS_MAX, CALLS_MAX));
    assert_eq!(ids(&read).iter().collect::<HashSet<_>>().len(), CALLS_MAX, "each has an id of its own");
}

#[test]
fn a_history_holds_objects_for_arguments_and_the_call_what_the_model_wrote() {
    for (written, as_read, echoed) in [
        (json!("{\"n\":1}"), "{\"n\":1}", "{\"n\":1}"),
        (json!("{\"n\":"), "{\"n\":", "{}"),
        (json!("[1]"), "[1]", "{}"),
        (json!("\"{\\\"n\\\":1}\""), "\"{\\\"n\\\":1}\"", "{\"n\":1}"),
        (json!({"n": 1}), "{\"n\":1}", "{\"n\":1}"),
        (json!(""), "", "{}"),
        (Value::Null, "", "{}"),
    ] {
        let call = json!({"id": "c", "type": "function", "function": {"name": "roll", "arguments": written}});
        let message = json!({"role": "assistant", "tool_calls": [call]});
        let answer = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
        let completion = read(answer, &|| 0).unwrap();
        assert_eq!(completion.calls[0].arguments, as_read, "{written}");
        assert_eq!(completion.raw.to_value()["tool_calls"][0]["function"]["arguments"], echoed, "{written}");
    }
}

#[test]
fn vllm_cut_off() {
    let completion = reading(include_str!("../../fixtures/vllm.json"));
    assert_eq!((completion.content.as_str(), completion.finish), ("{\"type\":\"te", Finish::Length));
    assert_eq!(completion.usage, Usage { prompt: 88, completion: 16, cached: 0, estimated: false });
}

#[test]
fn ollama_without_a_prompt_count() {
    let completion = reading(include_str!("../../fixtures/ollama.json"));
    assert_eq!(completion.content, "Hi there");
    assert_eq!(completion.usage, Usage { prompt: 100, completion: 3, cached: 0, estimated: true });
}

#[test]
fn gemini_without_content() {
    let completion = reading(include_str!("../../fixtures/gemini.json"));
    assert_eq!((completion.content.as_str(), completion.finish), ("", Finish::Filtered));
    assert_eq!(completion.usage, Usage { prompt: 12, completion: 0, cached: 0, estimated: false });
}

#[test]
fn content_of_every_shape() {
    for (content, expected) in [
        (json!("plain"), "plain"),
        (json!(null), ""),
        (json!([]), ""),
        (
            json!([{"type": "text", "text": "a"}, {"type": "thinking", "text": "no"}, {"text": "b"}, "c", 7, {"type": "text"}]),
            "abc",
        ),
        (json!({"type": "text", "response": "parsed"}), r#"{"response":"parsed","type":"text"}"#),
    ] {
        assert_eq!(read(answer(&json!({"content": content})), &|| PROMPT).unwrap().content, expected);
    }
}

#[test]
fn refusals_beside_and_inside_the_content() {
    for message in [
        json!({"content": null, "refusal": "I will not."}),
        json!({"content": [{"type": "refusal", "refusal": "I will not."}]}),
    ] {
        let completion = read(answer(&message), &|| PROMPT).unwrap();
        assert_eq!((completion.content.as_str(), completion.refusal.as_deref()), ("", Some("I will not.")));
    }
}

#[test]
fn finish_reasons() {
    let long = "x".repeat(1000);
    for (reason, expected) in [
        (json!("stop"), Finish::Stop),
        (json!("STOP"), Finish::Stop),
        (json!("max_tokens"), Finish::Length),
        (json!("tool_calls"), Finish::ToolCalls),
        (json!("content_filter"), Finish::Filtered),
        (json!("content_filter: PROHIBITED_CONTENT"), Finish::Filtered),
        (json!("RECITATION"), Finish::Filtered),
        (json!("insufficient_system_resource"), Finish::Other("insufficient_system_resource".into())),
        (json!(long), Finish::Other("x".repeat(REASON_CHARS))),
        (json!(null), Finish::Other("none".into())),
        (json!(3), Finish::Other("none".into())),
    ] {
        let answer = json!({"choices": [{"message": {"content": "a"}, "finish_reason": reason}]});
        assert_eq!(read(answer, &|| PROMPT).unwrap().finish, expected);
    }
    let calls = json!({"choices": [{"message": {"tool_calls": [{"id": "1"}]}}]});
    assert_eq!(read(calls, &|| PROMPT).unwrap().finish, Finish::ToolCalls);
}

#[test]
fn nonsense_usage_is_estimated() {
    // 400 characters were sent, 8 were returned.
    let guess = Usage { prompt: 100, completion: 2, cached: 0, estimated: true };
    for (usage, expected) in [
        (json!(null), guess),
        (json!([1, 2]), guess),
        (json!({}), guess),
        (json!({"prompt_tokens": -1, "completion_tokens": -1}), guess),
        (json!({"prompt_tokens": 1_000_000_000_000_u64, "completion_tokens": 10_000_001}), guess),
        (json!({"prompt_tokens": 1e300, "completion_tokens": 2.5}), guess),
        (json!({"prompt_tokens": 0, "completion_tokens": 0}), guess),
        (json!({"prompt_tokens": "70", "completion_tokens": null}), guess),
        (json!({"prompt_tokens": 70}), Usage { prompt: 70, ..guess }),
        (
            json!({"prompt_tokens": 70.0, "completion_tokens": 10_000_000}),
            Usage { prompt: 70, completion: 10_000_000, cached: 0, estimated: false },
        ),
        (
            json!({"input_tokens": 70, "output_tokens": 3}),
            Usage { prompt: 70, completion: 3, cached: 0, estimated: false },
        ),
    ] {
        let answer = json!({"choices": [{"message": {"content": "12345678"}}], "usage": usage});
        assert_eq!(read(answer, &|| PROMPT).unwrap().usage, expected, "{usage}");
    }
}

#[test]
fn cached_tokens_of_every_provider() {
    for (field, expected) in [
        (json!({"prompt_tokens_details": {"cached_tokens": 5}}), 5),
        (json!({"input_tokens_details": {"cached_tokens": 5}}), 5),
        (json!({"prompt_cache_hit_tokens": 5}), 5),
        (json!({"cache_read_input_tokens": 5}), 5),
        (json!({"prompt_tokens_details": null, "cached_tokens": 5}), 5),
        (json!({"cached_tokens": 50}), 9),
        (json!({"cached_tokens": -5}), 0),
    ] {
        let mut answer = answer(&json!({"content": "a"}));
        answer["usage"].as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
        assert_eq!(read(answer, &|| PROMPT).unwrap().usage.cached, expected, "{field}");
    }
}

#[test]
fn what_is_no_completion_is_malformed() {
    for answer in [
        json!(null),
        json!("hello"),
        json!([]),
        json!({}),
        json!({"choices": null}),
        json!({"choices": {"0": {}}}),
        json!({"choices": ["hello"]}),
        json!({"choices": [{}]}),
        json!({"choices": [{"message": null}]}),
        json!({"choices": [{"message": "hello"}]}),
    ] {
        assert_eq!(read(answer.clone(), &|| PROMPT).unwrap_err().kind, ModelErrorKind::Malformed, "{answer}");
    }
}

#[test]
fn an_empty_list_of_choices_is_a_blocked_prompt() {
    let blocked = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}});
    let completion = read(blocked, &|| PROMPT).unwrap();
    assert_eq!((completion.content.as_str(), completion.finish), ("", Finish::Filtered));
    assert_eq!(completion.usage, Usage { prompt: 7, completion: 0, cached: 0, estimated: false });
}

#[test]
fn the_one_call_of_the_older_form_is_a_call_and_is_echoed_as_one() {
    let older =
        json!({"role": "assistant", "content": "", "function_call": {"name": "roll", "arguments": "{\"n\":1}"}});
    let read = read(json!({"choices": [{"message": older, "finish_reason": "function_call"}]}), &|| PROMPT).unwrap();
    let told: Vec<_> = read.calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!((told, read.finish), (vec![("call_0_roll", "roll", "{\"n\":1}")], Finish::ToolCalls));
    let function = json!({"name": "roll", "arguments": "{\"n\":1}"});
    let call = json!({"id": "call_0_roll", "type": "function", "function": function});
    assert_eq!(
        read.raw.to_value(),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        "and no empty text beside it"
    );
}
