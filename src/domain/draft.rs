//! What is shown of an unfinished text.

use unicode_segmentation::UnicodeSegmentation;

use super::split::{is_blank, split};

const FENCE: &str = "```";

/// What to show of a text that is still growing: at most `limit` Unicode scalar values, never a part of a grapheme, every
/// code block closed. None while there is nothing worth showing.
#[must_use]
pub fn draft(text: &str, limit: usize) -> Option<String> {
    // What comes next may still belong to the last grapheme.
    let (last, _) = text.grapheme_indices(true).next_back()?;
    let mut sure = text[..last].trim_end();
    // Backticks at the beginning of a line are a fence that is not whole yet.
    let bare = sure.trim_end_matches('`');
    if sure.len() - bare.len() < FENCE.len() && (bare.is_empty() || bare.ends_with('\n')) {
        sure = bare;
    }
    // An opening fence is worth nothing before its code.
    let line = sure.rfind('\n').map_or(0, |at| at + 1);
    if sure.matches(FENCE).count() % 2 == 1 && sure[line..].starts_with(FENCE) {
        sure = &sure[..line];
    }
    split(sure, limit).into_iter().next().filter(|first| !is_blank(first))
}

/// A text that was cut short and the apology for it. A code block that was open is closed, so that the apology stands outside.
#[must_use]
pub fn cut_short(text: &str, apology: &str) -> String {
    match split(text, usize::MAX).into_iter().next() {
        Some(shown) => format!("{shown}\n\n{apology}"),
        None => apology.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_unfinished_is_held_back() {
        for (text, shown) in [
            ("", None),
            ("H", None),
            ("He", Some("H")),
            ("Hello wor", Some("Hello wo")),
            ("look:\n``", Some("look:")),
            ("look:\n```", Some("look:")),
            ("look:\n```py", Some("look:")),
            ("look:\n```py\n", Some("look:")),
            ("look:\n```py\nx", Some("look:")),
            ("look:\n```py\nx = 1", Some("look:\n```py\nx =\n```")),
            ("look:\n```py\nx = 1\n``", Some("look:\n```py\nx = 1\n```")),
            ("look:\n```py\nx = 1\n```\nso", Some("look:\n```py\nx = 1\n```\ns")),
            ("say `x`!", Some("say `x`")),
            ("hi 👩\u{200d}", Some("hi")),
            ("hi 👩\u{200d}👩", Some("hi")),
        ] {
            assert_eq!(draft(text, 2000).as_deref(), shown, "{text:?}");
        }
    }

    #[test]
    fn an_apology_stands_outside_of_code() {
        assert_eq!(cut_short("see\n```py\nx =", "Sorry."), "see\n```py\nx =\n```\n\nSorry.");
        assert_eq!(cut_short("half a", "Sorry."), "half a\n\nSorry.");
        assert_eq!(cut_short("", "Sorry."), "Sorry.");
    }

    proptest! {
        #[test]
        fn drafts_of_any_text_fit_and_close_their_code(
            text in "([a-z .`\n]|```\n|é|e\u{301}|👩\u{200d}👩|🇩🇪){0,120}", limit in 40_usize..200
        ) {
            for (at, _) in text.char_indices() {
                let Some(shown) = draft(&text[..at], limit) else { continue };
                prop_assert!(shown.chars().count() <= limit, "{shown:?}");
                prop_assert_eq!(shown.matches(FENCE).count() % 2, 0, "{:?} of {:?}", shown, &text[..at]);
                let joined = shown.ends_with('\u{200d}');
                prop_assert!(!joined);
            }
        }

        #[test]
        fn a_draft_ends_between_graphemes(text in "(e\u{301}|👩\u{200d}👩|🇩🇪|x ){1,40}") {
            let borders: Vec<&str> = text.grapheme_indices(true).map(|(at, _)| text[..at].trim()).collect();
            for (at, _) in text.char_indices() {
                if let Some(shown) = draft(&text[..at], 2000) {
                    prop_assert!(borders.contains(&shown.as_str()), "{shown:?}");
                }
            }
        }
    }
}
