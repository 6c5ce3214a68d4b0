//! Arguments as people read them: every character that could hide, reverse or end something is spelled out.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// JSON that reads as these arguments, one field a line. Characters that are not seen as they are stand as JSON's escapes, so what
/// is read is what is meant.
#[must_use]
pub fn shown(arguments: &Map<String, Value>) -> String {
    // A map with string keys can always be written.
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
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
        | '\u{61c}'
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
