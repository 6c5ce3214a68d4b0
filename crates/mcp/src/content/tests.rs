use std::fmt::Write as _;

use serde_json::json;

use super::*;

fn read_within(text: &str, limits: ResultLimits) -> Result<ToolResult, String> {
    result(serde_json::from_str(text).unwrap(), limits)
}

fn read(text: &str) -> ToolResult {
    read_within(text, ResultLimits::default()).unwrap()
}

#[test]
fn every_kind_of_block_is_read() {
    let result = read(
        r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AAEC","mimeType":"image/png"},
        {"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"x:1","text":"t"}},
        {"type":"resource","resource":{"uri":"x:2","blob":"AAAA"}},
        {"type":"resource_link","uri":"x:3","name":"n","description":"d"},{"type":"hologram"}],"isError":true}"#,
    );
    assert!(result.is_error && result.cut.is_none());
    assert_eq!(result.images().next().unwrap().bytes[..], [0, 1, 2]);
    assert_eq!(
        result.to_text(),
        "a\n[image: image/png, 3 bytes]\n[sound left out: 3 bytes]\n[resource: x:1]\nt\n[the resource x:2 is not text: 3 bytes]\n\
         [link: n <x:3>: d]\n[a part of the type hologram, which cannot be shown]"
    );
}

#[test]
fn servers_take_liberties() {
    assert_eq!(read(r#"{"structuredContent":{"result":5}}"#).to_text(), r#"{"result":5}"#);
    assert_eq!(read(r#"{"content":[],"structuredContent":{"result":5}}"#).to_text(), r#"{"result":5}"#);
    assert_eq!(read(r#"{"content":[{"type":"text","text":"5"}],"structuredContent":{"result":5}}"#).to_text(), "5");
    assert_eq!(read("{}").parts, []);
    assert_eq!(read("null").parts, []);
    assert_eq!(read(r#""bare""#).to_text(), "bare");
    assert_eq!(read(r#"{"content":"bare"}"#).to_text(), "bare");
    assert_eq!(read(r#"[{"type":"text","text":"a"}]"#).to_text(), "a");
    assert_eq!(read(r#"{"toolResult":{"x":1}}"#).parts, [Part::Structured(Arc::new(json!({"toolResult": {"x": 1}})))]);
    assert_eq!(read(r#"{"content":[{"text":"untyped"},3]}"#).to_text(), "untyped\n3");
    assert_eq!(read(r#"{"content":[{"type":"image","data":"%%","mimeType":"image/png"}]}"#).images().count(), 0);
}

#[test]
fn what_needs_a_person_is_refused() {
    let error = read_within(r#"{"resultType":"input_required","inputRequests":{}}"#, ResultLimits::default());
    assert!(error.unwrap_err().contains("asks for more input"));
}

#[test]
fn countless_blocks_cost_what_is_kept() {
    let mut text = String::from(r#"{"content":["#);
    for index in 0..200_000 {
        let _ = write!(text, r#"{{"type":"text","text":"{index}"}},"#);
    }
    text.push_str(r#"{"type":"text","text":"the end"}]}"#);
    let result = read(&text);
    assert!(result.to_text().ends_with("more parts left out]"), "{}", &result.to_text()[..100]);
    assert!(result.to_text().len() <= 65_536);
}

#[test]
fn many_long_blocks_keep_head_and_tail() {
    let block = json!({"type": "text", "text": "x".repeat(100_000)});
    let mut blocks = vec![json!({"type": "text", "text": "begin"})];
    blocks.extend(vec![block; 100]);
    blocks.push(json!({"type": "text", "text": "end"}));
    let result = read(&json!({"content": blocks}).to_string());
    let text = result.to_text();
    assert!(text.starts_with("begin\nxxx") && text.ends_with("xxx\nend") && text.len() <= 65_536, "{}", text.len());
    assert_eq!(result.cut, Some(Cut { bytes: 10_000_008, whole: None }));
}

#[test]
fn an_answer_that_is_too_large_shows_how_it_begins_and_ends() {
    let head = br#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"begin\nof it"#.to_vec();
    let frame = Oversized { head, tail: br#"end of it"}]}}"#.to_vec(), bytes: 500_000_000, crowded: false };
    let result = oversized(&frame, ResultLimits::default());
    assert!(result.to_text().starts_with("begin\nof it"), "{}", result.to_text());
    assert!(result.to_text().contains("end of it"));
    assert_eq!(result.cut.unwrap().bytes, 500_000_000);
}

#[test]
fn what_is_shown_of_an_answer_that_is_too_large_has_no_escapes() {
    let head =
        br#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"\u4f60\u597d\n\ud83d\ude00"#.to_vec();
    let frame = Oversized { head, tail: br#"\u00e4"}]}}"#.to_vec(), bytes: 9_000_000, crowded: false };
    let text = oversized(&frame, ResultLimits::default()).to_text();
    assert!(text.starts_with("你好\n😀") && text.contains('ä'), "{text}");
}

#[test]
fn a_result_costs_no_more_than_its_length() {
    cost::grows_linearly(
        16 * 1024,
        |size| format!(r#"{{"content":[{}"x"]}}"#, r#"{"type":"text","text":"\n"},"#.repeat(size / 28)),
        |text| drop(result(serde_json::from_str(&text).unwrap(), ResultLimits::default())),
    );
}

#[test]
fn an_oversized_answer_costs_no_more_than_what_is_kept() {
    cost::grows_linearly(
        8 * 1024,
        |size| Oversized {
            head: b"\"text\":".repeat(size / 7),
            tail: b"\\u00e4".repeat(size / 6),
            bytes: size as u64,
            crowded: false,
        },
        |frame| drop(oversized(&frame, ResultLimits::default())),
    );
}
