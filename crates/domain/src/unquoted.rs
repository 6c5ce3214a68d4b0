//! Removes quoted values from a technical text.

/// Code names that such texts quote and that contain no member's text.
const NAMES: [&str; 4] = ["Err", "Ok", "None", "Some"];

/// Returns the text of a panic or parser without quoted values. A quoted value, such as the string that was sliced
/// inside a character, may be a member's text.
#[must_use]
pub fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(['`', '"']) {
        let quote = if rest[before.len()..].starts_with('`') { '`' } else { '"' };
        let end = closing(after, quote);
        let (quoted, behind) = end.map_or((after, ""), |end| (&after[..end], &after[end + 1..]));
        let name_of_code = quote == '`' && (quoted.contains("::") && !quoted.contains(' ') || NAMES.contains(&quoted));
        out.push_str(before);
        out.push(quote);
        out.push_str(if name_of_code { quoted } else { "…" });
        out.push(quote);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Returns the end of the quotation. Between quotation marks, a mark after a backslash is part of the quoted text.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == quote && !escaped;
        escaped = quote == '"' && letter == '\\' && !escaped;
        ends.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_left_out_but_names_of_code_stay() {
        let cases = [
            (
                "index out of bounds: the len is 0 but the index is 1",
                "index out of bounds: the len is 0 but the index is 1",
            ),
            (
                "called `Result::unwrap()` on an `Err` value: Refused(\"my diary\")",
                "called `Result::unwrap()` on an `Err` value: Refused(\"…\")",
            ),
            ("byte index 1 is not a char boundary of `über uns`", "byte index 1 is not a char boundary of `…`"),
            ("it said \"never closed", "it said \"…\""),
            (r#"string "my \"dear\" diary \\", expected a map"#, "string \"…\", expected a map"),
        ];
        for (text, wanted) in cases {
            assert_eq!(unquoted(text), wanted);
        }
    }

    #[test]
    fn any_text_costs_in_proportion_to_its_length() {
        let texts = |size: usize| vec!["`".repeat(size), "\"\\".repeat(size / 2), "`a\"".repeat(size / 3)];
        cost::grows_linearly(2 * 1024, texts, |texts| {
            for text in &texts {
                drop(unquoted(text));
            }
        });
    }
}
