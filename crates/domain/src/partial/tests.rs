use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::reply::Schema;
use crate::split::is_blank;

/// Returns the visible text after each piece.
fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut partial = Partial::default();
    let show = |piece| {
        partial.push(piece);
        partial.visible().to_owned()
    };
    pieces.into_iter().map(show).collect()
}

fn whole(text: &str) -> String {
    read([text]).pop().unwrap()
}

#[test]
fn a_response_grows() {
    let shown = read([
        "{\"type\": \"te",
        "xt\", \"resp",
        "onse\": \"Hel",
        "lo\\",
        "n\\u00e",
        "9 \\ud83d",
        "\\ude00!\"",
        ", \"data\": \"no\"}",
    ]);
    assert_eq!(shown, ["", "", "Hel", "Hello", "Hello", "Hello\né", "Hello\né 😀!", "Hello\né 😀!"]);
}

#[test]
fn what_stands_around_an_object_is_passed_over() {
    for text in [
        r#" {"response":"hi"}"#,
        "```json\n{\"response\":\"hi\"}\n```",
        "```\n{\"response\":\"hi\"}\n```",
        "```{\"response\":\"hi\"}```",
        r#"<think>{"response": "no"} perhaps</think> {"response":"hi"}"#,
        r#"<Thinking>hm</thinking><think></think>{"response":"hi"}"#,
        r#"{"type":{"response":"no","x":["\"]}",{}]},"response" : "hi"}"#,
        r#"{"data":"\"response\":\"no\"","n":1,"response":"hi"}"#,
    ] {
        assert_eq!(whole(text), "hi", "{text}");
    }
}

#[test]
fn nothing_is_shown_that_is_not_sure() {
    for text in [
        "Hello there",
        r#"Here: {"response":"hi"}"#,
        r#"[{"response":"hi"}]"#,
        r#""{\"response\":\"hi\"}""#,
        r#"<think>so <think>x</think> {"response":"hi"}"#,
        r#"<think>so <reasoning>x</think> {"response":"hi"}"#,
        r#"<think>a `</think>` {"response":"hi"}"#,
        r#"<tool_call>{"response":"hi"}"#,
        "```json\nsee {\"response\":\"hi\"}",
        r#"{"response":{"response":"hi"}}"#,
        r#"{"response":null}"#,
        r#"{"response":"{\"type\":\"text\"}"}"#,
        r#"{"response":" <think>no"}"#,
        r#"{"x":1} {"response":"hi"}"#,
    ] {
        assert_eq!(whole(text), "", "{text}");
    }
}

#[test]
fn a_broken_text_is_shown_up_to_the_break() {
    assert_eq!(whole(r#"{"response":"ab\x cd"}"#), "ab");
    assert_eq!(whole(r#"{"response":"ab\ud83d cd"}"#), "ab");
    assert_eq!(whole(r#"{"response":"ab\u00g0 cd"}"#), "ab");
    assert_eq!(whole(r#"{"response":"ab"#), "ab");
}

#[test]
fn an_endless_answer_is_read_no_further() {
    let mut partial = Partial::default();
    partial.push("{\"response\":\"");
    for _ in 0..1000 {
        partial.push(&"x".repeat(1000));
    }
    assert!(partial.response.len() <= MAX_CONTENT_BYTES);
}

fn schema() -> Schema {
    let document: Value = serde_json::from_str(include_str!("../../../../response_schema.json")).unwrap();
    Schema::compile(&document).unwrap()
}

/// Returns a JSON string in which some characters are escaped without need.
fn escaped(text: &str, mask: u64) -> String {
    let mut written = String::from("\"");
    for (index, letter) in text.chars().enumerate() {
        if mask >> (index % 64) & 1 == 1 {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                write!(written, "\\u{unit:04x}").unwrap();
            }
        } else {
            let plain = json!(letter.to_string()).to_string();
            written.push_str(&plain[1..plain.len() - 1]);
        }
    }
    written + "\""
}

fn cut(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(letters.len() + 1)).collect();
    places.extend([0, letters.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| letters[pair[0]..pair[1]].iter().collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn whatever_is_shown_is_the_beginning_of_the_final_response(
        response in r#"(?s)(.|[\{\[<"\\ \n`]|response|</?think>|😀|é|```){0,40}"#,
        data in r#"(.|"response":"|[\{\}\\"]){0,12}"#,
        mask in any::<u64>(),
        order in 0..3_usize,
        around in 0..8_usize,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
    ) {
        let mut fields = [r#""type": "text""#.to_owned(),
            format!("\"response\" : {}", escaped(&response, mask)),
            format!("\"data\":{}", escaped(&data, !mask))];
        fields.rotate_left(order);
        let object = format!("{{{}\n}}", fields.join(", "));
        let text = match around {
            0 => object,
            1 => format!("\n  {object}\n"),
            2 => format!("```json\n{object}\n```"),
            3 => format!("<think>so {{\"response\":\"no\"}}</think>\n{object}"),
            4 => format!("<Reasoning>so</reasoning><think></think>```\n{object}"),
            5 => format!("<think>so <thinking>no</think>{object}"),
            // A blank reply is invalid, so the second object would be the first valid one.
            6 if !is_blank(&response) => format!("```json\n{object}\n```\nor ```\n{{\"type\":\"text\",\"response\":\"no\",\"data\":\"\"}}\n```"),
            _ => format!("{object}\n\nI hope that helps."),
        };
        let pieces = cut(&text, &cuts);
        let shown = read(pieces.iter().map(String::as_str));
        let Ok(reply) = schema().read(&text) else { return Ok(()) };
        for shown in &shown {
            prop_assert!(reply.response.starts_with(shown.as_str()), "{shown:?} of {:?}", reply.response);
        }
        // A response that begins like markup or JSON is withheld as a whole, as is text after nested thoughts. All
        // other text is complete at the end.
        let held = around == 5 || response.trim_start().starts_with(UNSURE);
        let last = shown.last().map(String::as_str).unwrap_or_default();
        prop_assert_eq!(last, if held { "" } else { reply.response.as_str() });
    }

    #[test]
    fn no_text_at_all_breaks_the_reader(pieces in prop::collection::vec(r#"(?s)[\{\}"\\u<>`d8a:,\[ n]{0,6}|.{0,3}|"response""#, 0..30)) {
        let shown = read(pieces.iter().map(String::as_str));
        for pair in shown.windows(2) {
            prop_assert!(pair[1].starts_with(pair[0].as_str()));
        }
    }
}

#[test]
fn reading_along_costs_in_proportion_to_the_answer() {
    let answer = |size: usize| {
        let blanks = " ".repeat(size / 4);
        let words = "w\\u00e9 ".repeat(size / 16);
        format!(
            "<think>{}</think>{{\"type\":\"{words}\",\"response\":\"{blanks}{words}{blanks}",
            "<thin ".repeat(size / 24)
        )
    };
    cost::grows_linearly(4 * 1024, answer, |answer| {
        let mut partial = Partial::default();
        let mut shown = 0;
        for letter in answer.chars() {
            partial.push(letter.encode_utf8(&mut [0; 4]));
            shown = partial.visible().len().max(shown);
        }
        assert!(shown > 0);
    });
}
