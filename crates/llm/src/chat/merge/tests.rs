use super::*;
use crate::bounds::VALUES_MAX;

fn merged(deltas: impl IntoIterator<Item = Value>) -> Value {
    let mut merged = Merged::default();
    for delta in deltas {
        said(&mut merged, &json!({"choices": [{"index": 0, "delta": delta}]}));
    }
    message_of(merged)
}

fn said(merged: &mut Merged, chunk: &Value) -> String {
    merged.take(&chunk.to_string()).unwrap().text.into_owned()
}

fn message_of(merged: Merged) -> Value {
    assert!(merged.is_answer());
    Value::Object(merged.into_message())
}

#[test]
fn texts_grow_and_names_stay() {
    let message = merged([
        json!({"role": "assistant", "content": "", "refusal": null}),
        json!({"role": "assistant", "content": "Hel", "reasoning_content": "let me "}),
        json!({"content": "lo", "reasoning_content": "see", "left": -1, "vendor": {"trace": "ab", "n": 1}}),
        json!({"content": null, "vendor": {"trace": "cd", "n": 2}}),
    ]);
    let expected = json!({
        "role": "assistant", "content": "Hello", "refusal": null, "reasoning_content": "let me see",
        "left": -1, "vendor": {"trace": "abcd", "n": 2},
    });
    assert_eq!(message, expected);
}

#[test]
fn calls_are_told_apart_however_they_are_numbered() {
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let both = json!([call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]);
    let numbered = [
        json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"x\""}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{"}}]}),
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": ":1}"}}, {"index": 1, "function": {"arguments": "}"}}]}),
    ];
    assert_eq!(merged(numbered)["tool_calls"], both);
    let unnumbered = [
        json!({"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        json!({"tool_calls": [{"function": {"arguments": "{\"x\":1}"}}]}),
        json!({"tool_calls": [{"id": "b", "type": "function", "function": {"name": "g", "arguments": "{"}}]}),
        json!({"tool_calls": [{"id": null, "function": {"name": null, "arguments": "}"}}]}),
    ];
    assert_eq!(merged(unnumbered)["tool_calls"], both);
    let all_zero = [
        json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]}),
        json!({"tool_calls": [{"index": 0, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}),
    ];
    assert_eq!(merged(all_zero)["tool_calls"], both);
    let nameless = [
        json!({"tool_calls": [{"id": "", "function": {"name": "f", "arguments": "{}"}}, {"id": "", "function": {"name": "f", "arguments": "{}"}}]}),
    ];
    assert_eq!(merged(nameless)["tool_calls"].as_array().unwrap().len(), 2);
}

#[test]
fn calls_that_all_have_the_number_zero_and_no_id_stay_apart() {
    let names = |deltas: Vec<Value>| {
        let message = merged(deltas);
        let calls = message["tool_calls"].as_array().unwrap().clone();
        let text = |call: &Value, at: &str| call.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        calls.iter().map(|call| (text(call, "/function/name"), text(call, "/function/arguments"))).collect::<Vec<_>>()
    };
    let told =
        |calls: &[(&str, &str)]| calls.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
    let delta = |name: Option<&str>, arguments: &str| {
        let mut function = json!({"arguments": arguments});
        if let Some(name) = name {
            function["name"] = json!(name);
        }
        json!({"tool_calls": [{"index": 0, "id": "", "function": function}]})
    };
    let whole = vec![delta(Some("f"), "{\"x\":1}"), delta(Some("f"), "{\"x\":2}"), delta(Some("g"), "{}")];
    assert_eq!(names(whole), told(&[("f", "{\"x\":1}"), ("f", "{\"x\":2}"), ("g", "{}")]));
    let pieces =
        vec![delta(Some("f"), ""), delta(None, "{\"x\""), delta(None, ":1}"), delta(Some("g"), ""), delta(None, "{}")];
    assert_eq!(names(pieces), told(&[("f", "{\"x\":1}"), ("g", "{}")]));
    let repeated = vec![delta(Some("f"), "{\"x\""), delta(Some("f"), ":1}")];
    assert_eq!(names(repeated), told(&[("f", "{\"x\":1}")]));
    let split = vec![delta(Some("get_"), ""), delta(Some("time"), ""), delta(Some(""), "{}")];
    assert_eq!(names(split), told(&[("get_time", "{}")]));
    let growing = vec![delta(Some("get_"), ""), delta(Some("get_time"), ""), delta(None, "{}")];
    assert_eq!(names(growing), told(&[("get_time", "{}")]));
}

#[test]
fn signed_thoughts_can_be_echoed() {
    let message = merged([
        json!({"thinking_blocks": [{"type": "thinking", "thinking": "first ", "signature": null}]}),
        json!({"thinking_blocks": [{"type": "thinking", "thinking": "thought"}]}),
        json!({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "c2ln"}]}),
        json!({"thinking_blocks": [{"type": "thinking", "thinking": "second"}]}),
        json!({"content": "so", "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "x+/="}}}]}),
    ]);
    let blocks = json!([{"type": "thinking", "thinking": "first thought", "signature": "c2ln"}, {"type": "thinking", "thinking": "second"}]);
    assert_eq!(message["thinking_blocks"], blocks);
    assert_eq!(message["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "x+/=");
}

#[test]
fn content_may_be_a_list_of_parts() {
    let mut whole = Merged::default();
    let mut heard = String::new();
    for content in [
        json!("He"),
        json!([{"type": "text", "text": "l"}]),
        json!([{"type": "thinking", "thinking": "hm"}]),
        json!([{"type": "text", "text": "l"}]),
        json!("o"),
    ] {
        heard += &said(&mut whole, &json!({"choices": [{"delta": {"content": content}}]}));
    }
    assert_eq!(heard, "Hello");
    assert_eq!(text_of(message_of(whole).get("content")).0, "Hello");
}

#[test]
fn other_choices_are_nobodys_business() {
    let mut merged = Merged::default();
    assert_eq!(
        said(
            &mut merged,
            &json!({"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]})
        ),
        "yes"
    );
    assert_eq!(
        said(&mut merged, &json!({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]})),
        ""
    );
    assert!(!merged.is_finished());
}

#[test]
fn a_whole_message_in_one_chunk_is_taken_once() {
    let mut merged = Merged::default();
    let chunk = json!({"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
    assert_eq!(said(&mut merged, &chunk), "hi");
    assert_eq!(said(&mut merged, &chunk), "");
    assert_eq!(message_of(merged)["content"], "hi");
}

#[test]
fn nonsense_is_no_reason_to_panic() {
    for chunk in [
        json!(null),
        json!([]),
        json!({"choices": {}}),
        json!({"choices": [null]}),
        json!({"choices": [{"delta": "x"}]}),
        json!({"choices": [{"delta": {"content": 7, "tool_calls": {"a": [1]}}}]}),
    ] {
        drop(Merged::default().take(&chunk.to_string()));
    }
    let clash = merged([
        json!({"a": "x", "tool_calls": [1]}),
        json!({"a": {"b": 1}, "tool_calls": ["x", {"index": 0}]}),
        json!({"a": [1], "tool_calls": "y"}),
    ]);
    assert_eq!(clash["a"], json!([1]));
}

#[test]
fn lists_are_bounded() {
    let block = |index: usize| json!({"index": index, "type": format!("t{index}"), "thinking": "hm"});
    let blocks =
        |most: usize| json!({"choices": [{"delta": {"thinking_blocks": (0..most).map(block).collect::<Vec<_>>()}}]});
    assert!(Merged::default().take(&blocks(ITEMS_MAX).to_string()).is_ok());
    assert!(Merged::default().take(&blocks(ITEMS_MAX + 1).to_string()).is_err());
}

#[test]
fn of_too_many_calls_the_first_are_kept_with_their_own_arguments() {
    for (in_one, numbered) in [(true, true), (false, true), (false, false)] {
        let call = |number: usize| {
            let mut call = json!({"id": format!("c{number}"), "function": {"name": "f", "arguments": format!("{{\"n\":{number}")}});
            let mut rest = json!({"function": {"arguments": "}"}});
            if numbered {
                (call["index"], rest["index"]) = (number.into(), number.into());
            }
            [call, rest]
        };
        let items: Vec<Value> = (0..200).flat_map(call).collect();
        let mut merged = Merged::default();
        for items in items.chunks(if in_one { items.len() } else { 1 }) {
            assert!(merged.take(&json!({"choices": [{"delta": {"tool_calls": items}}]}).to_string()).is_ok());
        }
        drop(merged.take(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#));
        let completion = Box::new(merged).into_completion(&|| 0);
        let arguments: Vec<&str> = completion.calls.iter().map(|call| call.arguments.as_str()).collect();
        let wanted: Vec<String> = (0..CALLS_MAX).map(|number| format!("{{\"n\":{number}}}")).collect();
        assert_eq!(arguments, wanted);
        assert_eq!(
            completion.raw.to_value()["tool_calls"].as_array().map(Vec::len),
            Some(CALLS_MAX),
            "each has a result"
        );
    }
}

#[test]
fn deltas_of_calls_cost_in_proportion_to_their_length() {
    // The maximum number of calls, with pieces of arguments in the order that maximises the search.
    let deltas = |size: usize| {
        let piece = |turn: usize| {
            let index = ITEMS_MAX - 1 - turn % ITEMS_MAX;
            json!({"choices": [{"delta": {"tool_calls": [{"index": index, "function": {"arguments": "x"}}]}}]})
        };
        (0..size).map(|turn| piece(turn).to_string()).collect::<Vec<String>>()
    };
    cost::grows_linearly(2 * ITEMS_MAX, deltas, |deltas| {
        let mut merged = Merged::default();
        for delta in &deltas {
            drop(merged.take(delta));
        }
        drop(Box::new(merged).into_completion(&|| 0));
    });
}

fn answered(deltas: &[Value], finish: &str) -> (Vec<String>, Completion) {
    let mut merged = Merged::new(true);
    let mut pieces = Vec::new();
    for delta in deltas {
        pieces.push(said(&mut merged, &json!({"choices": [{"index": 0, "delta": delta}]})));
    }
    said(&mut merged, &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    (pieces, Box::new(merged).into_completion(&|| 10))
}

fn begun(index: u64, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"tool_calls": [{"index": index, "id": name, "type": "function", "function": function}]})
}

fn more(index: u64, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
}

#[test]
fn arguments_of_the_function_that_answers_are_the_text_as_they_grow() {
    let prose = json!({"role": "assistant", "content": "Sure."});
    let deltas = [prose, begun(0, ANSWER_FUNCTION, ""), more(0, "{\"response\": \""), more(0, "Hi\"}")];
    let (pieces, completion) = answered(&deltas, "tool_calls");
    assert_eq!(pieces, ["", "", "{\"response\": \"", "Hi\"}"]);
    assert_eq!((completion.content.as_str(), completion.calls.len()), ("Sure.", 1));
    // The echo is the message as it came.
    assert_eq!(completion.raw.to_value()["tool_calls"][0]["function"]["arguments"], "{\"response\": \"Hi\"}");
    // Nothing that results of tools may change is shown.
    let tool_first = [begun(0, "roll", "{}"), begun(1, ANSWER_FUNCTION, "{\"a\": 1}")];
    assert_eq!(answered(&tool_first, "tool_calls").0.concat(), "");
    let answer_first = [begun(0, ANSWER_FUNCTION, "{\"a\""), begun(1, "roll", "{}"), more(0, ": 1}")];
    assert_eq!(answered(&answer_first, "tool_calls").0.concat(), "{\"a\"");
    // Prose without a call is shown once it is complete; the form written as text, as it grows.
    assert_eq!(answered(&[json!({"content": "Hello"})], "stop").0, [""]);
    let (pieces, completion) = answered(&[json!({"content": "{\"resp"}), json!({"content": "onse\": 1}"})], "stop");
    assert_eq!((pieces.concat().as_str(), completion.content.as_str()), ("{\"response\": 1}", "{\"response\": 1}"));
}

#[test]
fn blanks_cost_in_proportion_to_their_number_wherever_they_stand() {
    let chunk = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
    let run = |chunks: Vec<String>| {
        let mut merged = Merged::new(true);
        for chunk in &chunks {
            assert!(merged.take(chunk).is_ok());
        }
    };
    let named = |blanks: usize| {
        let first = chunk(&begun(0, "roll", &format!("{{}}{}", " ".repeat(blanks))));
        std::iter::once(first).chain((0..blanks).map(|_| chunk(&begun(0, "roll", "")))).collect()
    };
    cost::grows_linearly(500, named, run);
    let content = |blanks: usize| {
        let first = chunk(&json!({"content": " ".repeat(blanks)}));
        std::iter::once(first).chain((0..blanks).map(|_| chunk(&json!({"content": ""})))).collect()
    };
    cost::grows_linearly(500, content, run);
}

#[test]
fn values_of_a_message_are_bounded_in_sum() {
    let list = |size: usize| json!({"content": "a", "x": vec![1; size]});
    let nested = |size: usize| json!({"content": "a", "x": [vec![json!(null); size]]});
    let named = |size: usize| Value::Object((0..size).map(|n| (format!("n{n}"), json!(1))).collect());
    let within = |size: usize| json!({"x": named(size)});
    for delta in [list(20_000), nested(20_000), within(20_000)] {
        let mut merged = Merged::default();
        let chunk = json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
        let taken = (0..10).take_while(|_| merged.take(&chunk).is_ok()).count();
        // Equal names of an object are one value each time.
        assert!(taken == 3 || delta["x"].is_object(), "{taken}");
    }
    let mut merged = Merged::default();
    let chunk = json!({"choices": [{"index": 0, "delta": named(70_000)}]}).to_string();
    assert!(matches!(merged.take(&chunk), Err(Unusable::OutOfBounds(_))));
    // A value that replaces another one counts, and the replaced one does not.
    let mut merged = Merged::default();
    let fields = |value: &dyn Fn() -> Value| Value::Object((0..4).map(|n| (format!("n{n}"), value())).collect());
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
    assert!((0..VALUES_MAX + 10).all(|n| merged.take(&chunk(fields(&|| json!(n)))).is_ok()));
    assert!(merged.take(&chunk(fields(&|| json!(vec![1; 20_000])))).is_err());
    // A long answer in small pieces is one value.
    let mut merged = Merged::default();
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "word ", "tool_calls": null}}]}).to_string();
    assert!((0..VALUES_MAX + 10).all(|_| merged.take(&piece).is_ok()));
}

/// Returns the room that a message takes if it is measured as a whole.
fn measured(message: &Map<String, Value>) -> usize {
    let mut room = Room::default();
    for (name, value) in message {
        room.take(Size::of_name(name)).unwrap();
        room.take(Size::of(value)).unwrap();
    }
    room.bytes()
}

#[test]
fn names_of_fields_are_bounded_like_texts() {
    let long = |n: usize| format!("{n:06}{}", "x".repeat(500_000));
    let outer = |n: usize| json!({ long(n): 1 });
    let inner = |n: usize| json!({"reasoning_details": [{ long(n): 1 }]});
    let nested = |n: usize| json!({"vendor": {"x": { long(n): null }}});
    let controls = |n: usize| json!({ format!("{n:06}{}", "\u{1}".repeat(80_000)): "" });
    for delta in [&outer as &dyn Fn(usize) -> Value, &inner, &nested, &controls] {
        let mut merged = Merged::default();
        let chunk = |n: usize| json!({"choices": [{"index": 0, "delta": delta(n)}]}).to_string();
        let taken = (0..60).take_while(|n| merged.take(&chunk(*n)).is_ok()).count();
        assert!((7..=8).contains(&taken), "{taken}");
        assert!(merged.bytes() >= Value::Object(merged.message).to_string().len());
    }
}

#[test]
fn the_room_of_a_message_is_that_of_its_present_fields() {
    let deltas = [
        json!({"role": "assistant", "content": "a\n", "x": null, "y": 1}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "b"}], "x": [1, [2], {"a": "b"}]}),
        json!({"content": "c", "x": [{"a": "\u{1}d"}], "y": "text", "signature": "long text"}),
        json!({"content": 7, "x": "instead", "y": {"a": {"b": []}}, "signature": "short"}),
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ro", "arguments": ""}}], "y": {"a": {"b": [3]}}}),
        json!({"tool_calls": [{"index": 0, "function": {"name": "ll", "arguments": "{}"}}], "y": []}),
    ];
    let mut merged = Merged::default();
    // Repeated, so that a difference would add up.
    for delta in deltas.iter().cycle().take(60) {
        said(&mut merged, &json!({"choices": [{"index": 0, "delta": delta}]}));
        assert_eq!(merged.bytes(), measured(&merged.message), "{delta}: {:?}", merged.message);
    }
}
