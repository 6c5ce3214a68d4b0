//! JSON with comments and trailing commas, as in editor configurations.

use std::borrow::Cow;

/// Replaces comments (`//` to the end of the line, `/* */`) and commas before a closing bracket by blanks, so that
/// lines and columns in messages stay correct.
pub(super) fn without_comments(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut plain: Option<Vec<u8>> = None;
    let mut blank = |from: usize, to: usize| {
        let plain = plain.get_or_insert_with(|| bytes.to_vec());
        plain[from..to].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    };
    // The last comma followed only by blanks and comments.
    let mut comma = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                at = end_of_text(bytes, at);
                comma = None;
                continue;
            }
            (b'/', Some(b'/')) => {
                let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
                blank(at, end);
                at = end;
                continue;
            }
            (b'/', Some(b'*')) => {
                let inside = at + 2;
                let end =
                    memchr::memmem::find(&bytes[inside..], b"*/").map_or(bytes.len(), |length| inside + length + 2);
                blank(at, end);
                at = end;
                continue;
            }
            (b',', _) => comma = Some(at),
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    blank(comma, comma + 1);
                }
            }
            (byte, _) if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    // Only whole comments and commas were replaced, so the text is still valid UTF-8.
    plain.and_then(|plain| String::from_utf8(plain).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the end of a quoted string.
fn end_of_text(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn comments_and_last_commas_are_left_out_and_texts_stay() {
        let text = "{ // one\n \"a\": \"x // no, /* no */ ,]\", /* two\n lines */ \"b\": [1, 2, /* three */ ], \"c\\\"//\": {\"d\": \"\u{fc}\",},\n}";
        let plain = without_comments(text);
        assert_eq!(plain.matches('\n').count(), text.matches('\n').count(), "lines stay where they are");
        let value: Value = serde_json::from_str(&plain).unwrap();
        assert_eq!(value, json!({"a": "x // no, /* no */ ,]", "b": [1, 2], "c\"//": {"d": "\u{fc}"}}));
        assert!(matches!(without_comments("{\"a\": [1]}"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn json_stays_what_it_is_and_no_text_makes_it_panic(text in "\\PC{0,80}", json in "[\\[\\]{},:\"/*\\\\a \n]{0,80}") {
            let written = Value::String(text.clone()).to_string();
            let plain = without_comments(&written);
            prop_assert_eq!(plain.as_ref(), written.as_str());
            let _ = (without_comments(&text), without_comments(&json));
        }
    }

    #[test]
    fn a_file_of_any_length_costs_in_proportion_to_it() {
        let texts =
            |size: usize| vec!["/".repeat(size), "/*".repeat(size / 2), "\"\\".repeat(size / 2), ",]".repeat(size / 2)];
        cost::grows_linearly(1024, texts, |texts| {
            for text in texts {
                drop(without_comments(&text));
            }
        });
    }
}
