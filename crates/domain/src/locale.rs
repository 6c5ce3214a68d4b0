//! The language of the bot's own sentences. A model's answer follows the member's language instead.

use serde::{Deserialize, Serialize};

/// Declares the languages, one row each. The compiler then names each match that lacks the words of a new row.
macro_rules! locales {
    ($($(#[$about:meta])* $name:ident = $code:literal,)*) => {
        /// A language in which every notice exists.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Locale {
            $($(#[$about])* $name,)*
        }

        impl Locale {
            /// All languages; the first is the fallback.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$name),*];

            /// Returns the language code of ISO 639-1.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }
        }
    };
}

locales! {
    /// English, also for languages not listed here.
    #[default]
    English = "en",
    /// Spanish.
    Spanish = "es",
    /// German.
    German = "de",
}

impl Locale {
    /// Returns the language of a platform tag, such as `de` or `es-419`. English if it is absent or unsupported.
    #[must_use]
    pub fn of(tag: Option<&str>) -> Self {
        let language = tag.unwrap_or_default().split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|locale| language.eq_ignore_ascii_case(locale.code())).unwrap_or_default()
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
