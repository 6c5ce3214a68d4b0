use serde_json::json;

use super::*;
use domain::completion::Finish;
use ports::ModelErrorKind;

/// The texts for members, the hidden characters and the assembly after these events.
fn taken_with(mut assembly: Box<Assembled>, events: &[Value]) -> (String, usize, Box<Assembled>) {
    let (mut text, mut hidden) = (String::new(), 0);
    for event in events {
        let piece = assembly.take(&event.to_string()).unwrap_or_else(|why| panic!("{event}: {why:?}")).into_owned();
        text.push_str(&piece.text);
        hidden += piece.hidden;
    }
    (text, hidden, assembly)
}

fn taken(events: &[Value]) -> (String, usize, Box<Assembled>) {
    taken_with(Box::default(), events)
}

fn completion(events: &[Value]) -> (String, Completion) {
    let (text, _, assembly) = taken(events);
    assert!(assembly.is_complete() && assembly.is_answer());
    (text, Assembly::into_completion(assembly, &|| 40))
}

fn item(kind: &str, index: u64, item: &Value) -> Value {
    json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item})
}

fn message(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let content = if text.is_empty() { json!([]) } else { json!([part]) };
    json!({"type": "message", "id": "msg", "role": "assistant", "content": content})
}

fn text_delta(index: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "item_id": "msg", "output_index": index, "content_index": 0, "delta": delta})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments})
}

fn arguments_delta(index: u64, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta})
}

fn completed(output: &Value) -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    json!({"type": "response.completed", "response": {"status": "completed", "output": output, "usage": usage}})
}

#[test]
fn a_streamed_message_is_read_along_and_kept_as_its_last_version() {
    let done =
        json!({"type": "output_text", "text": "Hello", "annotations": [{"type": "url_citation", "url": "https://a"}]});
    let whole = json!({"type": "message", "id": "msg", "role": "assistant", "content": [done], "new": 1});
    let at = |kind: &str, fields: Value| {
        let mut event = json!({"type": kind, "item_id": "msg", "output_index": 0, "content_index": 0});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let (text, read) = completion(&[
        json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}),
        json!({"type": "response.in_progress", "response": {"status": "in_progress", "output": []}}),
        item("added", 0, &message("")),
        at("response.content_part.added", json!({"part": {"type": "output_text", "text": ""}})),
        text_delta(0, "Hel"),
        text_delta(0, "lo"),
        at("response.output_text.annotation.added", json!({"annotation": {"type": "url_citation"}})),
        at("response.output_text.done", json!({"text": "Hello"})),
        at("response.content_part.done", json!({"part": done})),
        item("done", 0, &whole),
        completed(&json!([whole])),
    ]);
    assert_eq!((text.as_str(), read.content.as_str(), read.finish), ("Hello", "Hello", Finish::Stop));
    assert_eq!(read.raw.to_value(), json!([whole]));
    assert_eq!((read.usage.prompt, read.usage.completion, read.usage.estimated), (10, 5, false));
}

#[test]
fn what_was_not_streamed_in_pieces_is_read_from_whole_parts_items_and_answers() {
    let part = json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0,
        "part": {"type": "output_text", "text": "Hello"}});
    let done = json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hello"});
    for events in [
        vec![text_delta(0, "He"), done, completed(&json!([]))],
        vec![text_delta(0, "He"), part, completed(&json!([]))],
        vec![text_delta(0, "He"), item("done", 0, &message("Hello")), completed(&json!([]))],
        vec![text_delta(0, "He"), completed(&json!([message("Hello")]))],
        vec![completed(&json!([message("Hello")]))],
    ] {
        let (text, read) = completion(&events);
        assert_eq!((text.as_str(), read.content.as_str()), ("Hello", "Hello"), "{events:?}");
    }
    let calls = json!([message("Hello"), call("a", "roll", "{}")]);
    let (_, read) = completion(&[item("added", 0, &message("")), text_delta(0, "Hello"), completed(&calls)]);
    assert_eq!((read.calls.len(), read.finish), (1, Finish::ToolCalls));
}

#[test]
fn calls_grow_by_deltas_and_unknown_items_are_kept() {
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"});
    let future = json!({"type": "of_the_future", "id": "x", "deep": {"kept": [1, null]}});
    let (text, hidden, assembly) = taken(&[
        item("added", 0, &json!({"type": "reasoning", "id": "rs", "summary": []})),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Hm."}),
        item("done", 0, &reasoning),
        item("added", 1, &call("a", "roll", "")),
        arguments_delta(1, "{\"sides\""),
        item("added", 2, &call("b", "flip", "")),
        arguments_delta(1, ": 6}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{}"}),
        item("done", 3, &future),
        json!({"type": "response.of_the_future.moving", "output_index": 3, "anything": [{}]}),
        json!({"type": "response.completed", "response": {"output": null}}),
    ]);
    assert_eq!(text, "");
    assert!(hidden > 20, "{hidden}");
    let read = Assembly::into_completion(assembly, &|| 40);
    let calls: Vec<_> = read.calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("a", "{\"sides\": 6}"), ("b", "{}")]);
    assert_eq!(
        read.raw.to_value(),
        json!([reasoning, call("a", "roll", "{\"sides\": 6}"), call("b", "flip", "{}"), future])
    );
}

#[test]
fn items_are_found_by_their_id_where_indices_are_missing_or_equal() {
    let first = json!({"type": "function_call", "id": "f1", "call_id": "a", "name": "roll", "arguments": ""});
    let second = json!({"type": "function_call", "id": "f2", "call_id": "b", "name": "flip", "arguments": ""});
    for index in [json!(null), json!(0)] {
        let with = |mut event: Value| {
            event["output_index"] = index.clone();
            event
        };
        let delta = |id: &str, delta: &str| {
            with(json!({"type": "response.function_call_arguments.delta", "item_id": id, "delta": delta}))
        };
        let done =
            json!({"type": "function_call", "id": "f1", "call_id": "a", "name": "roll", "arguments": "{\"n\": 1}"});
        let (_, read) = completion(&[
            with(item("added", 0, &first)),
            delta("f1", "{\"n\": 1}"),
            with(item("done", 0, &done)),
            with(item("added", 0, &second)),
            delta("f2", "{\"n\": 2}"),
            completed(&json!([])),
        ]);
        let told: Vec<_> = read.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(told, [("roll", "{\"n\": 1}"), ("flip", "{\"n\": 2}")], "{index}");
    }
}

#[test]
fn the_arguments_of_the_answer_are_read_along_and_prose_before_them_is_not() {
    let answering = || Box::new(Assembled::new(true));
    let call_events = [
        item("added", 1, &call("a", "give_answer", "")),
        arguments_delta(1, "{\"response\""),
        arguments_delta(1, ": \"Hi\"}"),
    ];
    let prose = [item("added", 0, &message("")), text_delta(0, "I will "), text_delta(0, "answer.")];
    let (text, _, assembly) = taken_with(answering(), &[&prose[..], &call_events[..]].concat());
    assert_eq!(text, "{\"response\": \"Hi\"}");
    assert_eq!(Assembly::into_completion(assembly, &|| 1).calls[0].arguments, "{\"response\": \"Hi\"}");

    // The form as text is shown, and so is the end of the arguments that only the whole call contains.
    let (text, ..) = taken_with(answering(), &[text_delta(0, "{\"response\""), text_delta(0, ": 1}")]);
    assert_eq!(text, "{\"response\": 1}");
    let done = item("done", 1, &call("a", "give_answer", "{\"response\": \"Hi\"}"));
    let (text, ..) = taken_with(answering(), &[&call_events[..2], &[done]].concat());
    assert_eq!(text, "{\"response\": \"Hi\"}");

    // Beside another call it is not the answer yet.
    let other = [item("added", 0, &call("b", "roll", "{}"))];
    let (text, ..) = taken_with(answering(), &[&other[..], &call_events[..]].concat());
    assert_eq!(text, "");
    let (text, ..) = taken(&call_events);
    assert_eq!(text, "", "the function was not offered");
}

#[test]
fn commentary_and_refusals_are_hidden() {
    let commentary = json!({"type": "message", "id": "c", "role": "assistant", "phase": "commentary", "content": []});
    let refusal =
        json!({"type": "response.refusal.delta", "output_index": 1, "content_index": 0, "delta": "I cannot."});
    let (text, read) = completion(&[
        item("added", 0, &commentary),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Looking."}),
        item("added", 1, &message("")),
        refusal,
        completed(&json!([])),
    ]);
    assert_eq!((text.as_str(), read.refusal.as_deref()), ("", Some("I cannot.")));
}

#[test]
fn failures_are_told_by_each_of_their_events() {
    for (event, code) in [
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null}),
            Some("rate_limit_exceeded"),
        ),
        (
            json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "it broke"}}}),
            Some("server_error"),
        ),
        (json!({"type": "response.failed", "response": {"status": "failed", "error": null}}), None),
        (json!({"error": {"code": 500, "message": "upstream cut"}}), Some("500")),
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}), Some("overloaded_error")),
    ] {
        let mut assembly = Assembled::default();
        let Err(Unusable::Failed(error)) = assembly.take(&event.to_string()) else { panic!("{event}") };
        assert_eq!(error.code.as_deref(), code, "{event}");
    }
    assert!(matches!(Assembled::default().take("half"), Err(Unusable::NotJson)));
}

#[test]
fn an_answer_that_was_cut_off_says_so_and_one_without_an_end_is_none_inside_a_call() {
    let incomplete = json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}});
    let (_, read) = completion(&[text_delta(0, "Hel"), incomplete]);
    assert_eq!((read.content.as_str(), read.finish), ("Hel", Finish::Length));

    let (.., assembly) = taken(&[text_delta(0, "Hel")]);
    assert!(assembly.is_answer() && !assembly.is_finished());
    let (.., assembly) = taken(&[item("added", 0, &call("a", "roll", "")), arguments_delta(0, "{\"half")]);
    assert!(!assembly.is_answer());
    assert!(!Assembled::default().is_answer());
}

#[test]
fn values_of_unexpected_kinds_are_skipped() {
    let (text, _, assembly) = taken(&[
        json!(null),
        json!({"type": 4, "output_index": "x", "delta": {}}),
        json!({"type": "response.output_text.delta", "delta": {"text": "x"}}),
        json!({"type": "response.output_item.added", "item": "x"}),
        json!({"type": "response.output_item.done", "output_index": -1, "item": {"type": "message", "content": {"a": 1}}}),
        json!({"type": "response.content_part.done", "part": [1]}),
        json!({"type": "response.completed", "response": [1]}),
    ]);
    assert_eq!(text, "");
    assert!(assembly.is_complete());
}

#[test]
fn items_calls_and_values_are_bounded() {
    let events = (0..).map(|n| item("added", n, &call(&n.to_string(), "roll", "{}")).to_string());
    let mut assembly = Assembled::default();
    let many = events.take_while(|event| assembly.take(event).is_ok() && !assembly.is_finished()).count();
    assert_eq!(many, CALLS_MAX);
    let read = Assembly::into_completion(Box::new(assembly), &|| 1);
    assert_eq!((read.calls.len(), read.finish), (CALLS_MAX, Finish::ToolCalls));

    let refused = |event: &dyn Fn(u64) -> Value| {
        let mut assembly = Assembled::default();
        let mut taken = (0..).map(|n| assembly.take(&event(n).to_string()).map(Piece::into_owned));
        let Some(Unusable::OutOfBounds(error)) = taken.find_map(Result::err) else { panic!("no bound") };
        error.kind
    };
    assert_eq!(refused(&|n| item("added", n, &json!({"type": "x"}))), ModelErrorKind::TooLarge);
    let wide = |n| item("added", n % 200, &json!({"type": "x", "many": vec![0; 400]}));
    assert_eq!(refused(&wide), ModelErrorKind::TooLarge);
    let parts = |n| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": n, "delta": ""});
    assert_eq!(refused(&parts), ModelErrorKind::TooLarge);

    // An item that is replaced again and again takes no more room.
    let mut assembly = Assembled::default();
    let again = item("added", 0, &json!({"type": "x", "id": "x", "many": vec![0; 400]})).to_string();
    assert!((0..2_000).all(|_| assembly.take(&again).is_ok()));
}

#[test]
fn each_event_costs_in_proportion_to_its_length() {
    let run = |events: Vec<String>| {
        let mut assembly = Assembled::new(true);
        for event in &events {
            drop(assembly.take(event).map(Piece::into_owned));
        }
        drop(Assembly::into_completion(Box::new(assembly), &|| 0));
    };
    // Short events behind a long text, arguments or item, each of which could read it again.
    let texts = |size: usize| {
        let first = text_delta(0, &"{ long ".repeat(size)).to_string();
        let done = json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "x"});
        std::iter::once(first)
            .chain((0..size).flat_map(|_| [text_delta(0, "a").to_string(), done.to_string()]))
            .collect()
    };
    cost::grows_linearly(512, texts, run);
    let arguments = |size: usize| {
        let first = item("added", 0, &call("a", "give_answer", &"{ long ".repeat(size))).to_string();
        let done = json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "x"});
        std::iter::once(first)
            .chain((0..size).flat_map(|_| [arguments_delta(0, "a").to_string(), done.to_string()]))
            .collect()
    };
    cost::grows_linearly(512, arguments, run);
    let unplaced = |size: usize| {
        let part =
            json!({"type": "response.output_text.delta", "item_id": "unknown", "content_index": 0, "delta": "a"});
        (0..size).map(|_| part.to_string()).collect()
    };
    cost::grows_linearly(512, unplaced, run);
}

#[test]
fn names_and_texts_of_items_are_bounded_in_bytes() {
    let long = |n: u64| format!("{n:06}{}", "x".repeat(400_000));
    let named = |n: u64| item("done", n, &json!({"type": "reasoning", long(n): 1}));
    let nested = |n: u64| item("added", n, &json!({"type": "x", "extra": [{ long(n): 1 }]}));
    // The same item again, after text that no item repeats.
    let grown = |n: u64| {
        if n.is_multiple_of(9) {
            item("added", 0, &json!({"type": "message", "id": "msg"}))
        } else {
            text_delta(0, &"\u{1}".repeat(70_000))
        }
    };
    for (event, most) in [(&named as &dyn Fn(u64) -> Value, 10), (&nested, 10), (&grown, 200)] {
        let mut assembly = Assembled::default();
        let taken = (0..200).take_while(|n| assembly.take(&event(*n).to_string()).is_ok()).count();
        assert!(taken >= 9 && taken <= most, "{taken}");
        let length: usize = assembly.slots.values().map(|slot| json!(slot.item).to_string().len()).sum();
        assert!(assembly.bytes() >= length, "{length}");
    }
}
