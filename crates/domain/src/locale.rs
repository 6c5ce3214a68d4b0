//! Which language the bot's own sentences are in. What a model answers follows the member's words and not this.

use serde::{Deserialize, Serialize};

/// A language that every notice has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locale {
    /// English, also for everything that is not listed here.
    #[default]
    English,
    /// Spanish.
    Spanish,
    /// German.
    German,
}

impl Locale {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::English, Self::Spanish, Self::German];

    /// The language that a platform's tag names, such as `de` or `es-419`; English when there is none or nobody speaks it here.
    #[must_use]
    pub fn of(tag: Option<&str>) -> Self {
        let language = tag.unwrap_or_default().split(['-', '_']).next().unwrap_or_default();
        let known = [("es", Self::Spanish), ("de", Self::German)];
        known.into_iter().find(|(code, _)| language.eq_ignore_ascii_case(code)).map_or(Self::English, |(_, it)| it)
    }
}

/// The same sentence in each language, in the order of [`Locale::ALL`]: the first is the one for everybody else.
pub type InEach = [(Locale, &'static str); Locale::ALL.len()];

/// A sentence in each language.
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
