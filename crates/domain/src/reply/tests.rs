use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::outgoing::Part;

fn schema() -> Schema {
    let document = serde_json::from_str(include_str!("../../../../response_schema.json")).unwrap();
    Schema::compile(&document).unwrap()
}

fn reply(kind: ReplyKind, response: &str, data: &str) -> Reply {
    Reply { kind, response: response.into(), data: data.into() }
}

#[test]
fn the_document_that_is_sent_is_the_file_itself() {
    let document: Value = serde_json::from_str(include_str!("../../../../response_schema.json")).unwrap();
    let form = schema().form();
    assert_eq!((form.name.as_str(), form.strict), ("bot_response_format", Some(true)));
    assert_eq!(Some(&form.schema), document.pointer("/json_schema/schema"));
}

#[test]
fn a_faulty_document_is_refused_by_place() {
    let good: Value = serde_json::from_str(include_str!("../../../../response_schema.json")).unwrap();
    let broken = |pointer: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        Schema::compile(&document).unwrap_err()
    };
    let check = |pointer: &str, value: Value, start: &str| {
        let error = broken(pointer, value);
        assert!(error.starts_with(start), "{error}");
    };
    check("/type", json!("json_object"), "/type: must be");
    check("/json_schema", json!(7), "/json_schema: is missing");
    check("/json_schema/name", json!(""), "/json_schema/name: is missing");
    check("/json_schema/schema", json!([]), "/json_schema/schema: is missing");
    check(
        "/json_schema/schema/properties/response",
        json!({"type": "array"}),
        "/json_schema/schema/properties/response: must",
    );
    check("/json_schema/schema/required", json!("type"), "/json_schema/schema/required: ");
    check("/json_schema/schema/properties/data", json!({"$ref": "https://example.invalid/x"}), "/json_schema/schema");
    assert!(Schema::compile(&json!("x")).unwrap_err().starts_with("/type"));
}

#[test]
fn a_reply_wrapped_into_its_own_text_is_cleaned_like_any_other() {
    let wrapped = |response: &str| {
        let inner = json!({"type": "text", "response": response, "data": ""}).to_string();
        json!({"type": "text", "response": inner, "data": ""}).to_string()
    };
    let read = |response: &str| schema().read(&wrapped(response)).map(|reply| reply.response);
    assert_eq!(read("Hello"), Ok("Hello".to_owned()));
    assert_eq!(read("<think>hm</think>Hello"), Ok("Hello".to_owned()));
    assert_eq!(read(&wrapped("Hello")), Ok("Hello".to_owned()));
}

#[test]
fn a_reply_is_found_in_every_usual_disguise() {
    let plain = r#"{"type":"code","response":"Look","data":"x = {\"a\": 1}"}"#;
    let expected = reply(ReplyKind::Code, "Look", r#"x = {"a": 1}"#);
    for content in [
        plain.to_owned(),
        format!("  \n{plain}\n"),
        format!("```json\n{plain}\n```"),
        format!("```\n{plain}"),
        format!("<think>maybe {{\"type\"}}</think>\n{plain}"),
        format!("maybe so</think>{plain}"),
        format!("<THINK>a<think>b</think>c</THINK>{plain}"),
        format!("Sure, {{here}} it is: {plain} I hope that helps."),
        format!("Sure:\n```json\n{plain}\n```\nBye"),
        serde_json::to_string(plain).unwrap(),
        serde_json::to_string(&serde_json::to_string(plain).unwrap()).unwrap(),
        json!({"type": "text", "response": plain, "data": ""}).to_string(),
        format!("<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>{plain}"),
    ] {
        assert_eq!(schema().read(&content), Ok(expected.clone()), "{content}");
    }
}

#[test]
fn marks_inside_a_good_answer_stay() {
    let response = "write ```json\n{}\n``` after </think>, {or} `<think>`";
    let content = json!({"type": "text", "response": response, "data": ""}).to_string();
    assert_eq!(schema().read(&content), Ok(Reply::text(response)));
    assert_eq!(schema().read(&format!("```json\n{content}\n```")), Ok(Reply::text(response)));
    let thinking = json!({"type": "text", "response": "<think>secret</think> hi", "data": ""}).to_string();
    assert_eq!(schema().read(&thinking), Ok(Reply::text("hi")));
}

#[test]
fn the_object_that_an_answer_begins_with_is_the_reply() {
    let object = |response: &str| json!({"type": "text", "response": response, "data": ""}).to_string();
    let response = "a ```<think> b</think> c";
    for content in [
        format!("<think>so</think>{}", object(response)),
        format!("<think>so</think>\n```json\n{}\n```", object(response)),
        format!("{}\n\nI hope that helps.", object(response)),
        format!("{}\nor\n```json\n{}\n```", object(response), object("another")),
    ] {
        assert_eq!(schema().read(&content), Ok(Reply::text(response)), "{content}");
    }
}

#[test]
fn a_draft_inside_a_thought_never_wins() {
    let object = |response: &str| json!({"type": "text", "response": response, "data": ""}).to_string();
    let (draft, real) = (object("draft"), object("real"));
    for content in [
        format!("<think>{draft}</think>{real}"),
        format!("<think>so <think>x</think> {draft}</think>{real}"),
        format!("<think>so <reasoning>x</think> {draft}</reasoning>{real}"),
        format!("<think>it ends with `</think>` {draft}</think>{real}"),
        format!("Well. <think>{draft}</think>{real}"),
        format!("<think>a</think> Well. <think>{draft}</think>{real}"),
    ] {
        let read = schema().read(&content);
        assert!(!matches!(&read, Ok(reply) if reply.response == "draft"), "{content}: {read:?}");
    }
}

#[test]
fn json_that_is_the_answer_itself_never_stands_bare() {
    let content = json!({"type": "text", "response": "{\"a\": 1}", "data": ""}).to_string();
    assert_eq!(schema().read(&content), Ok(Reply::text("```json\n{\"a\": 1}\n```")));
    let parts = to_parts(&reply(ReplyKind::Text, "", "[1, 2]"));
    assert_eq!(parts.iter().map(Part::text).collect::<Vec<_>>(), ["```json\n[1, 2]\n```"]);
}

#[test]
fn faults_say_what_to_mend_and_never_repeat_the_answer() {
    let schema = schema();
    let refused = |content: &str| schema.read(content).unwrap_err().to_string();
    insta::assert_snapshot!(refused(""), @"the answer is empty");
    insta::assert_snapshot!(refused("<think>only thoughts"), @"the answer is not one json object: expected value at line 1 column 1");
    insta::assert_snapshot!(refused("hello"), @"the answer is not one json object: expected value at line 1 column 1");
    insta::assert_snapshot!(refused("[1]"), @"the answer is not one json object: it is another kind of json value");
    insta::assert_snapshot!(refused(r#"{"type":"song","response":7}"#), @r#"/: "data" is a required property; /response: value is not of type "string"; /type: must be one of ["text","url","gif","latex","code","output"]"#);
    insta::assert_snapshot!(refused(r#"{"type":"text","response":" ","data":""}"#), @"/response: must not be empty");
    insta::assert_snapshot!(refused(r#"{"type":"text","response":"<tool_call>{}</tool_call>","data":""}"#), @"/response: must be words for the person, not a tool call");
    insta::assert_snapshot!(refused(r#"{"type":"text","response":"{\"name\":\"roll\",\"arguments\":{}}","data":""}"#), @"/response: must be words for the person, not a tool call");
    insta::assert_snapshot!(refused(r#"{"type":"text","response":"```tool_code\nroll()\n```","data":""}"#), @"/response: must be words for the person, not a tool call");
    insta::assert_snapshot!(refused(r#"{"type":"text","response":"hi","data":"","x":1}"#), @"/: Additional properties are not allowed ('x' was unexpected)");
}

#[test]
fn size_and_nesting_are_bounded() {
    let huge = json!({"type": "text", "response": "x".repeat(MAX_CONTENT_BYTES), "data": ""}).to_string();
    assert_eq!(schema().read(&huge), Err(Invalid::TooLong));
    let nested = format!(r#"{{"type":{}1{}}}"#, "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert_eq!(schema().read(&nested), Err(Invalid::TooDeep));
    let deeper = format!(r#"{{"type":{}"#, "[".repeat(100_000));
    assert!(matches!(schema().read(&deeper), Err(Invalid::NotJson(_))));
    for hostile in [
        "<think>".repeat(30_000),
        "</think>".repeat(30_000),
        "{".repeat(200_000),
        "{\"".repeat(100_000),
        "{}".repeat(100_000),
    ] {
        assert!(schema().read(&hostile).is_err());
        let _ = salvage::plain_text(&hostile);
    }
}

#[test]
fn an_own_schema_may_have_other_kinds_and_no_data() {
    let document = json!({"type": "json_schema", "json_schema": {"name": "mine", "schema": {
        "type": "object", "properties": {"type": {"type": "string"}, "response": {"type": "string"}}, "required": ["response"]}}});
    let schema = Schema::compile(&document).unwrap();
    assert_eq!(schema.read(r#"{"type":"poem","response":"roses"}"#), Ok(Reply::text("roses")));
}

#[test]
fn plain_words_are_kept() {
    for words in [
        "Hello there!",
        "Use `<think>` to think.",
        "See [the docs](https://example.com) {for example}.",
        "Like this:\n```json\n{\"a\": 1}\n```\nDone",
        "😀",
        "?",
        "a < b and c > d",
        "[1] first, [2] second",
    ] {
        assert_eq!(salvage::plain_text(words).as_deref(), Some(words));
    }
}

#[test]
fn only_words_are_left_of_answers_without_form() {
    let check = |content: &str, expected: Option<&str>| {
        assert_eq!(salvage::plain_text(content).as_deref(), expected, "{content}");
    };
    check("<think>secret</think>Hi", Some("Hi"));
    check("secret</think>Hi", Some("Hi"));
    check("Hi <think>never closed", Some("Hi"));
    check("[THINK]secret[/THINK]Hi", Some("Hi"));
    check("<think>secret", None);
    check(r#"{"type":"text","response":"Hi \"you\" \u00e4"#, Some("Hi \"you\" ä"));
    check(r#"{"type":"text","response":"cut \ud83d\ude"#, Some("cut"));
    check("{\"response\": \"two\nlines\", oops}", Some("two\nlines"));
    check(r#"{"type":"text","response":"#, None);
    check(r#"{"type":"poem","response":"Roses"}"#, Some("Roses"));
    check("```json\n{\"type\":\"poem\",\"response\":\"Roses\"}\n```", Some("Roses"));
    check(r#"Sure! {"type":"text","response":"Hi","da"#, Some("Hi"));
    check(r#"{"answer": 42}"#, None);
    check("{'answer': 42}", None);
    check(r#"[{"name":"roll","arguments":{}}]"#, None);
    check("null", None);
    check(r#"Let me roll. {"name":"roll","arguments":{"dice":"2d6"}}"#, Some("Let me roll."));
    check(r#"Let me roll. {"name":"roll","argum"#, Some("Let me roll."));
    check("Let me roll.\n```json\n{\"name\":\"roll\",\"arguments\":{}}\n```", Some("Let me roll."));
    check("```tool_code\nprint(roll())\n```", None);
    check("Let me roll.\n```tool_code\nprint(roll())\n```", Some("Let me roll."));
    check("Wait <tool_call>{\"name\":\"roll\"}</tool_call> done", Some("Wait  done"));
    check("<function=roll>{\"dice\": \"2d6\"}</function>", None);
    check("Ok <x:function_calls><x:invoke name=\"roll\">1</x:invoke></x:function_calls>", Some("Ok"));
    check("Ok <tool_call>{\"name\":", Some("Ok"));
    check("Ok [TOOL_CALLS] [{\"name\":\"roll\"}]", Some("Ok"));
    check("Ok <|python_tag|>roll(2)", Some("Ok"));
    check("Ok<|im_end|>", Some("Ok"));
    check(
        "<|channel|>analysis<|message|>secret<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
        Some("Hi"),
    );
    check("<|channel|>analysis<|message|>secret", None);
    check(r#"{"type":"text","response":"<think>a</think>{\"name\":\"roll\",\"arguments\":{}}","data":7}"#, None);
    check(" \u{200b} ", None);
    check("```\n```", None);
}

/// Generates answers from invalid fragments in any order.
fn broken_answer() -> impl Strategy<Value = String> {
    let pieces = [
        "<think>",
        "</think>",
        "[TOOL_CALLS]",
        "<tool_call>",
        "</tool_call>",
        "<x:invoke name=\"a\">",
        "</x:invoke>",
        "<function=",
        "{\"type\":\"text\",",
        "\"response\":",
        "\"Hi",
        "\",\"data\":\"\"}",
        "{\"name\":\"roll\",\"arguments\":{}}",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        "\\u12",
        "```",
        "```json\n",
        "\n",
        "words here",
        "`",
        "ä",
        "😀",
        "<|end|>",
        "<|channel|>final<|message|>",
        "<｜tool",
        "<",
        "/>",
        ":",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..25).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_but_words_is_shown_of_any_broken_answer(content in broken_answer()) {
        let schema = schema();
        let shown = match schema.read(&content) {
            Ok(reply) => {
                prop_assert!(!to_parts(&reply).is_empty());
                reply.response
            }
            Err(_) => salvage::plain_text(&content).unwrap_or_else(|| "nothing".to_owned()),
        };
        prop_assert!(!is_blank(&shown));
        prop_assert!(!serde_json::from_str::<Value>(&shown).is_ok_and(|value| value.is_object() || value.is_array()), "{shown}");
        let loose = shown.replace("`<think>`", "").replace("`</think>`", "");
        let spoken = salvage::plain_text(&content).unwrap_or_default();
        prop_assert!(!spoken.contains("<tool_call>") && !spoken.contains("[TOOL_CALLS]"), "{spoken}");
        prop_assert!(!loose.starts_with("<think>"), "{loose}");
    }
}

/// Generates the answers that take the longest to parse.
fn nasty(size: usize) -> Vec<String> {
    let of = |piece: &str| piece.repeat(size / piece.len());
    let half = |piece: &str| piece.repeat(size / piece.len() / 2);
    vec![
        of("{"),
        of("{\"a\":"),
        of("<|"),
        of("\"response\""),
        of("[think]"),
        of("<think>`</think>"),
        of("```json\n{"),
        of("{} "),
        format!("{{{}", of("\"response\" ")),
        format!("{}{} z", half("{\"a\" x "), half("}")),
        format!("<invoke>{}", of("invoke>")),
        of("<invoke/>"),
        of("<a:invoke></b:invok>"),
        format!("{{\"response\": \"{}", of("\\")),
    ]
}

#[test]
fn making_sense_of_an_answer_costs_in_proportion_to_it() {
    let schema = schema();
    cost::grows_linearly(512, nasty, |answers| {
        for answer in &answers {
            drop(schema.read(answer));
        }
    });
}

#[test]
fn saving_the_words_of_an_answer_costs_in_proportion_to_it() {
    cost::grows_linearly(512, nasty, |answers| {
        for answer in &answers {
            drop((salvage::plain_text(answer), salvage::spoken(answer)));
        }
    });
}
