//! The language of the bot's own sentences. A model's answer follows the member's language instead.

use serde::{Deserialize, Serialize};

/// A language in which every notice exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locale {
    /// English, also for languages not listed here.
    #[default]
    English,
    /// Spanish.
    Spanish,
    /// German.
    German,
}

impl Locale {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::English, Self::Spanish, Self::German];

    /// Returns the language of a platform tag, such as `de` or `es-419`. English if it is absent or unsupported.
    #[must_use]
    pub fn of(tag: Option<&str>) -> Self {
        let language = tag.unwrap_or_default().split(['-', '_']).next().unwrap_or_default();
        let known = [("es", Self::Spanish), ("de", Self::German)];
        known.into_iter().find(|(code, _)| language.eq_ignore_ascii_case(code)).map_or(Self::English, |(_, it)| it)
    }
}

/// The same sentence in each language, in the order of [`Locale::ALL`]; the first is the fallback.
pub type InEach = [(Locale, &'static str); Locale::ALL.len()];

/// Returns a sentence in each language.
#[must_use]
pub fn in_each(sentence: impl Fn(Locale) -> &'static str) -> InEach {
    Locale::ALL.map(|locale| (locale, sentence(locale)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_find_their_language() {
        for (tag, expected) in [
            (Some("de"), Locale::German),
            (Some("es-ES"), Locale::Spanish),
            (Some("es-419"), Locale::Spanish),
            (Some("DE_at"), Locale::German),
            (Some("en-US"), Locale::English),
            (Some("est"), Locale::English),
            (Some(""), Locale::English),
            (None, Locale::English),
        ] {
            assert_eq!(Locale::of(tag), expected, "{tag:?}");
        }
    }
}
