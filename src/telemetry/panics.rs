//! Sends panics through the log.

use std::panic::PanicHookInfo;

use crate::domain::panic;

/// Names of code that panic texts quote and that hold nothing a member wrote.
const QUOTED_NAMES: [&str; 4] = ["Err", "Ok", "None", "Some"];

/// Logs a panic: what, where, in which thread. Without `content`, what the text quotes is left out.
pub fn log(info: &PanicHookInfo<'_>, content: bool) {
    let said = panic::text(info.payload());
    let said = if content { said.to_owned() } else { without_quotes(said) };
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(event = "panic", location = place, thread = thread.name().unwrap_or("unnamed"), "{said}");
}

/// Panic texts of the standard library quote the value at hand, such as the string that was sliced in the middle of a
/// character: that may be what a member wrote.
fn without_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(['`', '"']) {
        let quote = if rest[before.len()..].starts_with('`') { '`' } else { '"' };
        let (quoted, behind) = after.split_once(quote).unwrap_or((after, ""));
        let name_of_code =
            quote == '`' && (quoted.contains("::") && !quoted.contains(' ') || QUOTED_NAMES.contains(&quoted));
        out.push_str(before);
        out.push(quote);
        out.push_str(if name_of_code { quoted } else { "…" });
        out.push(quote);
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_quotes_is_left_out_but_names_of_code_stay() {
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
        ];
        for (text, wanted) in cases {
            assert_eq!(without_quotes(text), wanted);
        }
    }
}
