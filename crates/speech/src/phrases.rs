//! The phrases that announce tools in speech. Results of tools are never spoken.

use std::collections::HashMap;

use domain::locale::Locale;
use domain::notice;
use domain::tool::failure::ToolFailure;

/// An event of a tool that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Announcement {
    /// A tool runs.
    Running,
    /// A tool failed.
    Failed(ToolFailure),
}

/// The operator's phrases, by language code of ISO 639-1 in lower case; empty ones are not spoken. Others are those of
/// the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phrases(pub HashMap<(String, Announcement), String>);

impl Phrases {
    /// Returns the phrase in the language of this tag, such as `de` or `es-419`; English if it is absent or unknown.
    #[must_use]
    pub fn say(&self, tag: Option<&str>, announcement: Announcement) -> &str {
        let code = tag.unwrap_or("en").split(['-', '_']).next().unwrap_or_default().to_lowercase();
        let locale = Locale::of(tag);
        let known = self.0.get(&(code, announcement)).or_else(|| self.0.get(&(locale.code().to_owned(), announcement)));
        known.map_or_else(|| usual(locale, announcement), String::as_str)
    }
}

const fn usual(locale: Locale, announcement: Announcement) -> &'static str {
    match announcement {
        Announcement::Running => notice::tools_at_work(locale),
        Announcement::Failed(failure) => notice::tool_failed(failure, locale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_s_phrases_go_before_those_of_the_program() {
        let late = Announcement::Failed(ToolFailure::Timeout);
        let own = [("de", late, "Gemach, gemach."), ("fr", late, "Patience !"), ("en", Announcement::Running, "")];
        let own = own.map(|(code, announcement, words)| ((code.to_owned(), announcement), words.to_owned()));
        let phrases = Phrases(own.into());
        for (tag, announcement, words) in [
            (None, late, "That's taking a bit longer than expected."),
            (Some("de-AT"), late, "Gemach, gemach."),
            (Some("FR"), late, "Patience !"),
            (Some("it"), late, "That's taking a bit longer than expected."),
            (Some("en-GB"), Announcement::Running, ""),
            (Some("es"), Announcement::Failed(ToolFailure::NotFound), "No he encontrado lo que buscas."),
        ] {
            assert_eq!(phrases.say(tag, announcement), words, "{tag:?} {announcement:?}");
        }
    }
}
