//! The visible draft of an unfinished text.

use unicode_segmentation::UnicodeSegmentation;

use super::split::{split, split_at_most};

const FENCE: &str = "```";

/// Maximum number of bytes of a Unicode scalar value.
const MESSAGE_BYTES: usize = 4;

/// Maximum number of messages that a draft fills. The rest of a longer answer is posted with the final answer.
pub const DRAFT_MESSAGES_MAX: usize = 4;

/// Returns the messages to show for a text that is still streaming: each at most `limit` Unicode scalar values, at
/// most [`DRAFT_MESSAGES_MAX`] of them, graphemes whole, code blocks closed. Empty while there is nothing to show.
#[must_use]
pub fn draft(text: &str, limit: usize) -> Vec<String> {
    // Text after the last message is not examined: no message needs more bytes than this.
    let room = limit.saturating_mul(MESSAGE_BYTES).saturating_mul(DRAFT_MESSAGES_MAX + 1);
    let text = &text[..text.floor_char_boundary(room)];
    // The next characters may still belong to the last grapheme.
    let Some((last, _)) = text.grapheme_indices(true).next_back() else { return Vec::new() };
    let mut sure = text[..last].trim_end();
    // Backticks at the beginning of a line may be an incomplete fence.
    let bare = sure.trim_end_matches('`');
    if sure.len() - bare.len() < FENCE.len() && (bare.is_empty() || bare.ends_with('\n')) {
        sure = bare;
    }
    // An opening fence is not shown before its code.
    let line = sure.rfind('\n').map_or(0, |at| at + 1);
    if sure.matches(FENCE).count() % 2 == 1 && sure[line..].starts_with(FENCE) {
        sure = &sure[..line];
    }
    split_at_most(sure, limit, DRAFT_MESSAGES_MAX)
}

/// Appends an apology to a text that was cut short. An open code block is closed, so that the apology is outside of
/// it.
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
            assert_eq!(draft(text, 2000).first().map(String::as_str), shown, "{text:?}");
        }
    }

    #[test]
    fn an_apology_stands_outside_of_code() {
        assert_eq!(cut_short("see\n```py\nx =", "Sorry."), "see\n```py\nx =\n```\n\nSorry.");
        assert_eq!(cut_short("half a", "Sorry."), "half a\n\nSorry.");
        assert_eq!(cut_short("", "Sorry."), "Sorry.");
    }

    #[test]
    fn a_full_message_goes_on_in_further_ones_and_stays_as_it_is() {
        let text = "words and words ".repeat(60);
        let whole = split(&text, 100);
        let (three, all) = (draft(&text[..280], 100), draft(&text, 100));
        assert_eq!((three.len(), all.len()), (3, DRAFT_MESSAGES_MAX));
        assert_eq!(three[..2], whole[..2]);
        assert_eq!(all[..], whole[..DRAFT_MESSAGES_MAX]);
    }

    proptest! {
        #[test]
        fn drafts_of_any_text_fit_and_close_their_code(
            text in "([a-z .`\n]|```\n|é|e\u{301}|👩\u{200d}👩|🇩🇪){0,120}", limit in 40_usize..200
        ) {
            for (at, _) in text.char_indices() {
                for shown in draft(&text[..at], limit) {
                    prop_assert!(shown.chars().count() <= limit, "{shown:?}");
                    prop_assert_eq!(shown.matches(FENCE).count() % 2, 0, "{:?} of {:?}", shown, &text[..at]);
                    let joined = shown.ends_with('\u{200d}');
                    prop_assert!(!joined);
                }
            }
        }

        #[test]
        fn a_draft_ends_between_graphemes(text in "(e\u{301}|👩\u{200d}👩|🇩🇪|x ){1,40}") {
            let borders: Vec<&str> = text.grapheme_indices(true).map(|(at, _)| text[..at].trim()).collect();
            for (at, _) in text.char_indices() {
                if let Some(shown) = draft(&text[..at], 2000).first() {
                    prop_assert!(borders.contains(&shown.as_str()), "{shown:?}");
                }
            }
        }
    }
}
