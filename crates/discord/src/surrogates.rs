//! Lone surrogates in JSON, such as `"\ud800"`: half of a character outside of the basic plane. JSON allows them, and
//! text in Rust cannot contain them, so the parser would refuse the whole text.

use std::borrow::Cow;

use memchr::memchr;

/// The length of an escape such as `\ud800`.
const ESCAPE: usize = 6;
/// The escape of U+FFFD, which stands for an unreadable character.
const REPLACEMENT: &[u8; ESCAPE] = b"\\ufffd";

/// Returns this JSON with U+FFFD in place of each lone surrogate.
#[must_use]
pub fn mended(json: &str) -> Cow<'_, str> {
    if next_lone(json.as_bytes(), 0).is_none() {
        return Cow::Borrowed(json);
    }
    let mut bytes = json.as_bytes().to_vec();
    mend(&mut bytes);
    // Escapes consist of ASCII, so the bytes are still text.
    String::from_utf8(bytes).map_or(Cow::Borrowed(json), Cow::Owned)
}

/// Replaces each lone surrogate in this JSON by U+FFFD.
pub fn mend(json: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = next_lone(json, from) {
        from = at + ESCAPE;
        json[at..from].copy_from_slice(REPLACEMENT);
    }
}

/// Returns the position of the first escape of a lone surrogate at or after a position outside of escapes.
fn next_lone(json: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr(b'\\', json.get(from..)?)?;
        from = match unit(&json[at..]) {
            Some(0xD800..=0xDBFF) if matches!(unit(&json[at + ESCAPE..]), Some(0xDC00..=0xDFFF)) => at + 2 * ESCAPE,
            Some(0xD800..=0xDFFF) => return Some(at),
            Some(_) => at + ESCAPE,
            // Another escape, or none: the parser decides.
            None => at + 2,
        };
    }
}

/// Returns the UTF-16 unit of an escape at the start.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    let digit = |unit: u16, digit: &u8| Some(unit << 4 | u16::try_from(char::from(*digit).to_digit(16)?).ok()?);
    digits.iter().try_fold(0, digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_the_replacement_and_all_else_stays() {
        for (json, wanted) in [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""a\uDFFFb""#, "a\u{fffd}b"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\n\ude00 \u00e9""#, "\u{fffd}\n\u{fffd} é"),
            (r#""\\ud800 \\\ud800""#, "\\ud800 \\\u{fffd}"),
            (r#""é\\""#, "é\\"),
        ] {
            assert_eq!(serde_json::from_str::<String>(&mended(json)).ok().as_deref(), Some(wanted), "{json}");
        }
    }

    #[test]
    fn text_that_is_no_json_stays() {
        for text in ["", "\\", "\\u", "\\ud8", "\\ud80", "\"\\ud83d\\", "\\uzzzz", "\\u+123"] {
            assert_eq!(mended(text).len(), text.len());
        }
        assert!(matches!(mended(r#""\ud83d\ude00 \\ud800""#), Cow::Borrowed(_)));
    }
}
