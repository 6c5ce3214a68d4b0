//! Repairs almost valid messages: noise around messages, several messages on a line, invalid UTF-8, unpaired
//! surrogates, and pieces of oversized texts.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The most positions in one line at which a message is searched.
const STARTS_MAX: usize = 8;
/// The most messages of one line.
const OBJECTS_MAX: usize = 1_000;

/// Returns the JSON objects in a line, regardless of the text around them.
pub(super) fn objects(line: &[u8]) -> Vec<&RawValue> {
    let (mut found, mut rest) = (Vec::new(), line);
    for _ in 0..STARTS_MAX {
        let Some(at) = memchr::memmem::find(rest, b"{\"") else { break };
        rest = &rest[at..];
        let mut reader = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        while let Some(Ok(object)) = reader.next() {
            if found.len() == OBJECTS_MAX {
                return found;
            }
            found.push(object);
        }
        // Unreadable text may still be followed by a message after the next brace.
        rest = &rest[reader.byte_offset().max(1)..];
    }
    found
}

/// Returns the first `MOST` elements of a list; empty if it is not a list. Further elements take no memory.
pub(super) fn bounded<const MOST: usize>(list: &[u8]) -> Vec<&RawValue> {
    struct First<const MOST: usize>;
    impl<'de, const MOST: usize> Visitor<'de> for First<MOST> {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut first = Vec::new();
            while first.len() < MOST {
                let Some(element) = list.next_element()? else { return Ok(first) };
                first.push(element);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }
    serde_json::Deserializer::from_slice(list).deserialize_seq(First::<MOST>).unwrap_or_default()
}

/// Returns the repaired JSON, or `None` if the bytes need no repair.
pub(super) fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).is_err().then(|| String::from_utf8_lossy(bytes).into_owned().into_bytes());
    let whole = text.as_deref().unwrap_or(bytes);
    without_halves(whole).or(text)
}

/// Replaces escapes of unpaired surrogates, the result of cutting a text between them, by the replacement character.
fn without_halves(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        let (half, length) = match Escape::at(&bytes[at..]) {
            Escape::High => match Escape::at(bytes.get(at + 6..).unwrap_or_default()) {
                Escape::Low => (false, 12),
                _ => (true, 6),
            },
            Escape::Low => (true, 6),
            Escape::Other => (false, 2),
        };
        if half {
            mended.get_or_insert_with(|| bytes.to_vec())[at..at + 6].copy_from_slice(b"\\ufffd");
        }
        at = (at + length).min(bytes.len());
    }
    mended
}

enum Escape {
    High,
    Low,
    Other,
}

impl Escape {
    fn at(bytes: &[u8]) -> Self {
        let Some([b'\\', b'u', b'd' | b'D', second, third, fourth]) = bytes.get(..6) else { return Self::Other };
        match second {
            _ if !third.is_ascii_hexdigit() || !fourth.is_ascii_hexdigit() => Self::Other,
            b'8'..=b'9' | b'a'..=b'b' | b'A'..=b'B' => Self::High,
            b'c'..=b'f' | b'C'..=b'F' => Self::Low,
            _ => Self::Other,
        }
    }
}

/// Completes the introduction of an older server: adds missing fields and accepts an empty list for an empty object.
/// Returns `None` if it is unreadable.
pub(super) fn introduction(result: &RawValue) -> Option<Value> {
    let Value::Object(said) = serde_json::from_str(result.get()).ok()? else { return None };
    let version = said.get("protocolVersion").and_then(Value::as_str).unwrap_or("2024-11-05");
    let about = |key: &str| match said.get("serverInfo").and_then(|info| info.get(key)) {
        Some(Value::String(text)) => text.clone(),
        Some(number @ Value::Number(_)) => number.to_string(),
        _ => String::new(),
    };
    let has = |feature: &&str| match said.get("capabilities").and_then(|all| all.get(*feature))? {
        Value::Object(details) => {
            Some(json!({"listChanged": details.get("listChanged").and_then(Value::as_bool).unwrap_or_default()}))
        }
        Value::Array(_) | Value::Bool(true) => Some(json!({})),
        _ => None,
    };
    let features = ["tools", "resources", "prompts"];
    let features: Map<String, Value> =
        features.iter().filter_map(|feature| Some(((*feature).to_owned(), has(feature)?))).collect();
    let info = json!({"name": about("name"), "version": about("version")});
    Some(json!({"protocolVersion": version, "capabilities": features, "serverInfo": info}))
}

/// Decodes the complete JSON escapes in a piece of a text.
pub(super) fn unescaped(piece: &str) -> String {
    let mut text = String::with_capacity(piece.len());
    let mut rest = piece;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut after = rest.chars();
        match after.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b' | 'f') => text.push(' '),
            Some('u') => {
                rest = characters(&mut text, &rest[1..]);
                continue;
            }
            Some(other) => text.push(other),
            None => {}
        }
        rest = after.as_str();
    }
    text.push_str(rest);
    text
}

/// Decodes one hexadecimal escape, or two of a surrogate pair; returns the rest of the text.
fn characters<'a>(text: &mut String, rest: &'a str) -> &'a str {
    let digits = |piece: &str| u16::from_str_radix(piece.get(..4)?, 16).ok();
    let Some(first) = digits(rest) else { return if rest.len() < 4 { "" } else { rest } };
    let rest = &rest[4..];
    let second = rest.strip_prefix("\\u").and_then(digits).filter(|second| (0xdc00..0xe000).contains(second));
    let units = [first, second.unwrap_or_default()];
    let paired = (0xd800..0xdc00).contains(&first) && second.is_some();
    let units = if paired { &units[..] } else { &units[..1] };
    text.extend(char::decode_utf16(units.iter().copied()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
    if paired { &rest[6..] } else { rest }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(line: &str) -> Vec<&str> {
        objects(line.as_bytes()).into_iter().map(RawValue::get).collect()
    }

    #[test]
    fn objects_are_found_among_noise_and_side_by_side() {
        assert_eq!(
            found(r#"INFO {"a":1}{"b":2} done {"c":{"d":3}} x"#),
            [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":{"d":3}}"#]
        );
        assert_eq!(found("{\u{1b}[0m {\"a\" {\"b\":2}"), [r#"{"b":2}"#]);
        assert_eq!(found("\u{feff}{\"a\":1}"), [r#"{"a":1}"#]);
        assert_eq!(found("nothing"), [""; 0]);
    }

    #[test]
    fn what_is_no_utf8_or_half_a_character_is_replaced() {
        let mend = |bytes: &[u8]| mended(bytes).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(mend(r#"{"a":"ä \ud83d\ude00 \n"}"#.as_bytes()), None);
        assert_eq!(mend(b"{\"a\":\"\xff\"}").as_deref(), Some("{\"a\":\"\u{fffd}\"}"));
        assert_eq!(
            mend(br#"["\ud83d", "\uDE00\ud83d\ud83d\ude00", "\\ud83d"]"#).as_deref(),
            Some(r#"["\ufffd", "\ufffd\ufffd\ud83d\ude00", "\\ud83d"]"#)
        );
        assert_eq!(mend(br#""\ud83"#), None, "it ends in the middle");
    }

    #[test]
    fn introductions_are_completed() {
        let complete = |text: &str| introduction(serde_json::from_str(text).unwrap());
        let nothing =
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "", "version": ""}});
        assert_eq!(complete("{}"), Some(nothing));
        let short = r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":[],"prompts":false,"logging":[]},
            "serverInfo":{"name":"php","version":1.5}}"#;
        let whole = json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
            "serverInfo": {"name": "php", "version": "1.5"}});
        assert_eq!(complete(short), Some(whole));
        assert_eq!(complete("[]"), None);
    }

    #[test]
    fn pieces_of_texts_are_readable() {
        assert_eq!(unescaped(r#"a\n\"b\"\t\\ \u00e4\ud83d\ude00 \ud83d!"#), "a\n\"b\"\t\\ ä😀 \u{fffd}!");
        assert_eq!(unescaped(r"cut \u00"), "cut ");
        assert_eq!(unescaped(r"cut \"), "cut ");
    }

    proptest! {
        #[test]
        fn any_text_survives_being_written_and_read(text in any::<String>()) {
            let ascii: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(unescaped(&ascii), text.clone());
            let quoted = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(mended(quoted.as_bytes()), None);
        }

        #[test]
        fn any_bytes_are_mended_once(bytes in any::<Vec<u8>>()) {
            if let Some(text) = mended(&bytes) {
                prop_assert_eq!(mended(&text), None);
            }
            prop_assert!(objects(&bytes).len() <= bytes.len());
        }
    }

    #[test]
    fn looking_for_objects_costs_no_more_than_the_line() {
        cost::grows_linearly(8 * 1024, |size| "{\"a\":[".repeat(size / 6), |line| drop(objects(line.as_bytes())));
    }

    #[test]
    fn mending_costs_no_more_than_the_bytes() {
        cost::grows_linearly(8 * 1024, |size| "\\ud83d".repeat(size / 6), |text| drop(mended(text.as_bytes())));
    }

    #[test]
    fn taking_escapes_out_costs_no_more_than_the_piece() {
        cost::grows_linearly(8 * 1024, |size| "\\ud83d".repeat(size / 6), |text| drop(unescaped(&text)));
    }
}
