//! The keys of `config/default.toml` with their descriptions and defaults, in order.

use domain::near::distance;

/// The compiled-in file.
pub const DEFAULT_TOML: &str = include_str!("../../../config/default.toml");

/// One key of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultKey {
    /// `section.key`.
    pub key: String,
    /// The comment above it.
    pub sentence: &'static str,
    /// The default as written in TOML.
    pub toml: &'static str,
}

impl DefaultKey {
    /// Returns the name of the section.
    #[must_use]
    pub fn section(&self) -> &str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Returns the default as written in an environment variable.
    #[must_use]
    pub fn text(&self) -> String {
        let inner = self.toml.trim_start_matches(['"', '[']).trim_end_matches(['"', ']']);
        if self.toml.starts_with('[') { inner.replace('"', "").replace(", ", ",") } else { inner.to_owned() }
    }
}

/// Returns the keys offered to operators, in the order of the file.
pub fn offered() -> impl Iterator<Item = DefaultKey> {
    entries().into_iter()
}

/// Returns all keys in the order of the file.
///
/// The compiled-in file is parsed line by line: a comment line, then its key. A test compares the result with that of a
/// TOML parser.
#[must_use]
pub fn entries() -> Vec<DefaultKey> {
    let mut entries = Vec::new();
    let (mut section, mut sentence) = ("", "");
    for line in DEFAULT_TOML.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix('#') {
            sentence = comment.trim();
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            (section, sentence) = (name, "");
        } else if let Some((key, toml)) = line.split_once(" = ") {
            entries.push(DefaultKey { key: format!("{section}.{key}"), sentence, toml });
            sentence = "";
        }
    }
    entries
}

/// Returns the known name that this one misspells: one letter added, missing or replaced, two adjacent ones swapped, or
/// two such edits in a long name.
#[must_use]
pub fn slip_of<'a>(wrong: &str, mut known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let upper = wrong.to_ascii_uppercase();
    let most = |name: &str| if name.len() >= LONG_NAME { 2 } else { 1 };
    let swapped = |name: &str| {
        let (left, right) = (upper.as_bytes(), name.as_bytes());
        let different: Vec<usize> = (0..left.len()).filter(|at| right.get(*at) != Some(&left[*at])).collect();
        left.len() == right.len()
            && matches!(different[..], [a, b] if b == a + 1 && left[a] == right[b] && left[b] == right[a])
    };
    let near = |name: &&str| name.len().abs_diff(upper.len()) <= 2 && distance(&upper, name) <= most(name);
    known.find(|name| near(name) || swapped(name))
}

/// The length of a name from which two edits are allowed.
const LONG_NAME: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_file_is_an_entry_with_a_sentence() {
        let parsed: toml::Table = DEFAULT_TOML.parse().expect("the compiled-in file is valid");
        let mut keys: Vec<String> = Vec::new();
        for (section, table) in &parsed {
            let table = table.as_table().expect("only sections at the top");
            keys.extend(table.keys().map(|key| format!("{section}.{key}")));
        }
        let entries = entries();
        let mut found: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        found.sort();
        keys.sort();
        assert_eq!(found, keys);
        for entry in &entries {
            assert!(entry.sentence.len() > 15, "{} has no sentence above it", entry.key);
            assert!(entry.sentence.ends_with(['.', '/']), "the sentence of {} has no end", entry.key);
        }
    }

    #[test]
    fn a_slip_is_told_from_a_name_for_somebody_else() {
        let known = ["DISCORD_BOT_TOKEN", "LITELLM_MODEL", "REDIS_URL", "LOG_LEVEL"];
        for (wrong, right) in [
            ("DISCORD_BOT_TOKN", "DISCORD_BOT_TOKEN"),
            ("DISCORD_TOKEN_BOT", ""),
            ("LITELLM_MODLE", "LITELLM_MODEL"),
            ("REDIS_ULR", "REDIS_URL"),
            ("redis_url", "REDIS_URL"),
            ("LOGLEVEL", "LOG_LEVEL"),
            ("REDIS_TTL", ""),
            ("PATH", ""),
            ("LITELLM_SALT_KEY", ""),
        ] {
            assert_eq!(slip_of(wrong, known.into_iter()).unwrap_or_default(), right, "{wrong}");
        }
    }
}
