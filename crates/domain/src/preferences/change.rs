//! A change of one setting, in the form in which people write it: `[here] SETTING VALUE`.

use super::{DEFAULT, INSTRUCTIONS_CHARS, Setting};

/// The word for a value in one place only.
const HERE: &str = "here";

/// Maximum number of characters of a value.
pub const VALUE_CHARS: usize = INSTRUCTIONS_CHARS;

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// True if the value is for one place only.
    pub here: bool,
    /// The setting.
    pub setting: Setting,
    /// The new value; `None` resets the setting.
    pub value: Option<String>,
}

/// The reason why a change is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// No setting has this name.
    Name,
    /// The value is missing, or the setting does not accept it.
    Value(Setting),
}

impl Change {
    /// Parses a change. The name may be followed by a colon or an equals sign.
    ///
    /// # Errors
    /// The text names no setting or has no value.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let (here, text) = match text.split_once(char::is_whitespace) {
            Some((first, rest)) if first.eq_ignore_ascii_case(HERE) => (true, rest.trim_start()),
            Some(_) | None => (false, text),
        };
        let end = text.find(|c: char| c.is_whitespace() || c == ':' || c == '=').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let setting = Setting::named(name).ok_or(Invalid::Name)?;
        let value = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ':' || c == '=').trim_end();
        if value.is_empty() {
            return Err(Invalid::Value(setting));
        }
        Ok(Self { here, setting, value: (!value.eq_ignore_ascii_case(DEFAULT)).then(|| value.to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_a_setting_and_a_value() {
        let of = |here, setting, value: Option<&str>| Ok(Change { here, setting, value: value.map(str::to_owned) });
        for (text, expected) in [
            ("verbosity short", of(false, Setting::Verbosity, Some("short"))),
            (" here  verbosity: short ", of(true, Setting::Verbosity, Some("short"))),
            ("Web-Search=off", of(false, Setting::WebSearch, Some("off"))),
            ("language Default", of(false, Setting::Language, None)),
            ("instructions Say: here, now", of(false, Setting::Instructions, Some("Say: here, now"))),
            ("verbosity", Err(Invalid::Value(Setting::Verbosity))),
            ("verbosity:", Err(Invalid::Value(Setting::Verbosity))),
            ("colour red", Err(Invalid::Name)),
            ("here", Err(Invalid::Name)),
            ("", Err(Invalid::Name)),
        ] {
            assert_eq!(Change::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_longest_change_fits_a_slice() {
        let texts = |size: usize| vec![" ".repeat(size), format!("language{}x", ":".repeat(size)), "x".repeat(size)];
        cost::fits_a_slice(32 * 1024, texts, |texts| {
            for text in &texts {
                drop(Change::parse(text));
            }
        });
    }
}
