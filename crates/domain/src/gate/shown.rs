//! Tool arguments as shown to approvers: every character that could hide, reorder or end text is escaped.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use unicode_normalization::char::is_combining_mark;

/// Maximum number of combining marks on one letter, as in scripts that use marks.
const MARKS_MAX: usize = 2;

/// Returns JSON of these arguments, one field per line, for a person to read.
///
/// Characters that do not appear as themselves are JSON escapes: invisible ones; combining marks that can hide or
/// strike out a letter; letters that resemble ASCII letters within a word of ASCII letters; signs that resemble `/ .
/// : @ !` or a backslash; right-to-left letters beside text that they would reorder. A text of right-to-left words
/// alone stays readable.
#[must_use]
pub fn shown(arguments: &Map<String, Value>) -> String {
    // A map with string keys always serializes.
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    // Outside of its strings, JSON consists of ASCII only.
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

/// Returns the end of a JSON string, from after its opening quotation mark.
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

/// Writes a string. `prose`: it consists only of words of a right-to-left script, so nothing in it is reordered.
fn write_literal(out: &mut String, literal: &str, prose: bool) {
    // The number of marks that the letter before may still carry.
    let (mut room, mut before, mut rest) = (0, '"', literal);
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(part_end(rest));
        rest = behind;
        if part.starts_with('\\') {
            out.push_str(part);
            (room, before) = (0, '\\');
            continue;
        }
        let mixed = mixes_scripts(part);
        for c in part.chars() {
            let is_mark = is_combining_mark(c);
            let seen = is_plain(c) && if is_mark { room > 0 && !is_overlay(c) } else { prose || !is_right_to_left(c) };
            let seen = seen && !(mixed && is_lookalike_letter(c)) && !is_lookalike_sign(c, before);
            room = match (seen, is_mark) {
                (true, true) => room - 1,
                (true, false) if c.is_alphabetic() => MARKS_MAX,
                (false, _) | (true, false) => 0,
            };
            before = c;
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
}

/// Returns the end of the first part of a text: a JSON escape, a word, or one other character.
fn part_end(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || is_combining_mark(c);
    let mut chars = text.chars();
    match chars.next() {
        Some('\\') if chars.next() == Some('u') => text.len().min("\\u0000".len()),
        Some('\\') => text.len().min(2),
        Some(first) if is_word(first) => text.find(|c| !is_word(c)).unwrap_or(text.len()),
        first => first.map_or(0, char::len_utf8),
    }
}

/// True for a word of ASCII letters and letters that resemble them.
fn mixes_scripts(word: &str) -> bool {
    !word.is_ascii() && word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(is_lookalike_letter)
}

/// True for a letter of a script or form that contains ASCII lookalikes: phonetic, Greek, Cyrillic, Armenian,
/// Cherokee, Coptic, Lisu, and letters of other width or style.
const fn is_lookalike_letter(c: char) -> bool {
    matches!(c, '\u{250}'..='\u{2af}' | '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{1c80}'..='\u{1c8f}'
        | '\u{1d00}'..='\u{1dbf}' | '\u{1f00}'..='\u{1fff}' | '\u{2100}'..='\u{218f}' | '\u{2c80}'..='\u{2cff}'
        | '\u{2de0}'..='\u{2dff}' | '\u{a4d0}'..='\u{a4ff}' | '\u{a640}'..='\u{a69f}' | '\u{ab30}'..='\u{abbf}'
        | '\u{ff10}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
}

/// True for a sign that resembles `/`, `.`, `:`, `@`, `!` or a backslash. The wide forms are common in East Asian
/// text, so they are shown after an East Asian letter.
const fn is_lookalike_sign(c: char, before: char) -> bool {
    match c {
        '\u{1c3}'
        | '\u{2d0}'
        | '\u{2d3}'
        | '\u{2d8}'..='\u{2d9}'
        | '\u{2f8}'
        | '\u{589}'
        | '\u{1735}'
        | '\u{1803}'
        | '\u{1809}'
        | '\u{2024}'..='\u{2025}'
        | '\u{203c}'
        | '\u{2041}'
        | '\u{2044}'
        | '\u{2215}'..='\u{2216}'
        | '\u{2236}'
        | '\u{2571}'..='\u{2572}'
        | '\u{27cb}'
        | '\u{27cd}'
        | '\u{29f5}'
        | '\u{29f8}'..='\u{29f9}'
        | '\u{2cf9}'
        | '\u{2e5d}'
        | '\u{a4f8}'..='\u{a4fb}'
        | '\u{a4fd}'
        | '\u{a60e}'
        | '\u{a789}'
        | '\u{fe30}'
        | '\u{fe52}'
        | '\u{fe55}'
        | '\u{fe57}'
        | '\u{fe68}'
        | '\u{fe6b}'
        | '\u{ff20}'
        | '\u{ff3c}' => true,
        '\u{ff01}' | '\u{ff0e}'..='\u{ff0f}' | '\u{ff1a}' => {
            !matches!(before, '\u{3040}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
        }
        _ => false,
    }
}

/// True for a text of right-to-left words: no digit, no letter of another script, and no sign that could be
/// reordered.
fn is_right_to_left_prose(text: &str) -> bool {
    let is_word = |c: char| matches!(c, ' ' | '.' | ',' | '!' | '?') || (is_right_to_left(c) && !c.is_numeric());
    text.chars().any(is_right_to_left) && text.chars().all(is_word)
}

/// True for right-to-left characters, which change the displayed order of the text around them.
const fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

/// True for a mark that can be placed on any letter, strike it out or enclose it. Legitimate combinations also exist
/// as single characters.
const fn is_overlay(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{302a}'..='\u{302f}' | '\u{3099}'..='\u{309a}' | '\u{fe20}'..='\u{fe2f}')
}

/// True if a character always appears as itself.
fn is_plain(c: char) -> bool {
    match c {
        '\n' | ' ' => true,
        // Three backticks would end the surrounding code block. The others: zero width, direction marks, joiners,
        // fillers, variation selectors, private use, tags.
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
