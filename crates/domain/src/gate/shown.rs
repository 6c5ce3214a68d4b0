//! Arguments as people read them: every character that could hide, reverse or end something is spelled out.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use unicode_normalization::char::is_combining_mark;

/// Marks that may follow one letter, as the scripts that are written with marks have them.
const MARKS_MAX: usize = 2;

/// JSON that reads as these arguments, one field a line. Characters that are not seen as they are stand as JSON's escapes, so what
/// is read is what is meant: invisible ones, combining marks that can hide or strike out a letter, and right-to-left letters beside
/// anything that they reorder. A text that consists of right-to-left words alone stays readable.
#[must_use]
pub fn shown(arguments: &Map<String, Value>) -> String {
    // A map with string keys can always be written.
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    // Outside of its texts, JSON has no characters but those of ASCII.
    while let Some(at) = memchr::memchr(b'"', rest.as_bytes()) {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let (literal, behind) = rest.split_at(end_of(rest));
        let is_key = behind.starts_with("\":");
        write_literal(&mut out, literal, !is_key && is_right_to_left_prose(literal));
        let quote = behind.len().min(1);
        out.push_str(&behind[..quote]);
        rest = &behind[quote..];
    }
    out.push_str(rest);
    out
}

/// Where a text of JSON ends, from behind its first quotation mark on.
fn end_of(text: &str) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text.as_bytes()[at..]) {
        at += found;
        if text.as_bytes()[at] == b'"' {
            return at;
        }
        at = (at + 2).min(text.len());
    }
    text.len()
}

/// Writes a text. `prose`: it consists of words of a right-to-left script alone, so nothing in it is reordered.
fn write_literal(out: &mut String, literal: &str, prose: bool) {
    // The letter before has room for so many marks.
    let mut room = 0;
    for c in literal.chars() {
        let is_mark = is_combining_mark(c);
        let seen = is_plain(c) && if is_mark { room > 0 && !is_overlay(c) } else { prose || !is_right_to_left(c) };
        room = match (seen, is_mark) {
            (true, true) => room - 1,
            (true, false) if c.is_alphabetic() => MARKS_MAX,
            (false, _) | (true, false) => 0,
        };
        if seen {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

/// A text of words in a right-to-left script: no digit, no letter of another script, and no sign that could change its place.
fn is_right_to_left_prose(text: &str) -> bool {
    let is_word = |c: char| matches!(c, ' ' | '.' | ',' | '!' | '?') || (is_right_to_left(c) && !c.is_numeric());
    text.chars().any(is_right_to_left) && text.chars().all(is_word)
}

/// Written from right to left: what stands around it is shown in another order than it has.
const fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

/// A mark that stands over any letter, strikes it out, or encloses it: a letter with it is also written as one character.
const fn is_overlay(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{3099}'..='\u{309a}' | '\u{fe20}'..='\u{fe2f}')
}

/// Seen as itself, wherever it stands.
fn is_plain(c: char) -> bool {
    match c {
        '\n' | ' ' => true,
        // Three backticks would end the block that shows it. Zero width, marks of direction, joiners, fillers, variation selectors,
        // private use, tags.
        '`'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1345f}'
        | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{10ffff}' => false,
        _ => !c.is_control() && !c.is_whitespace(),
    }
}
