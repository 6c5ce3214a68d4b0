//! The configuration as people read it: the table of `staffai config` and the text of `.env.example`.

use std::fmt::Write as _;

use super::Loaded;
use super::defaults::{self, Entry};
use super::env::{self, VARIABLES, Variable};

/// Stands for a secret that is set.
pub const MASK: &str = "********";

/// One row of `staffai config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `section.key`.
    pub key: String,
    /// The value in force, masked when secret.
    pub value: String,
    /// Where it came from.
    pub origin: String,
}

/// The settings in force, in the order of `config/default.toml`.
#[must_use]
pub fn table(loaded: &Loaded) -> Vec<Row> {
    let row = |entry: Entry| Row {
        value: loaded.shown.get(&entry.key).cloned().unwrap_or_default(),
        origin: loaded.origins.get(&entry.key).map(ToString::to_string).unwrap_or_default(),
        key: entry.key,
    };
    defaults::entries().into_iter().map(row).collect()
}

/// The text of `.env.example`: every name with its sentence and default.
#[must_use]
pub fn env_example() -> String {
    let mut text = String::from(HEAD);
    let mut section = String::new();
    for entry in defaults::entries() {
        if entry.section() != section {
            entry.section().clone_into(&mut section);
            push(&mut text, &format!("\n# [{section}]"));
        }
        let rows: Vec<&Variable> = VARIABLES.iter().filter(|row| row.key == entry.key).collect();
        if rows.is_empty() {
            push(&mut text, &format!("# {}", entry.sentence));
            push(&mut text, &line(&env::general_name(&entry.key), &entry.text()));
        }
        for (at, row) in rows.iter().enumerate() {
            let sentence = if at == 0 { [entry.sentence, row.sentence].join(" ") } else { row.sentence.to_owned() };
            push(&mut text, &format!("# {}", sentence.trim()));
            let default = if at == 0 { entry.text() } else { String::new() };
            push(&mut text, &line(row.name, &default));
        }
    }
    text
}

fn push(text: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{line}");
}

fn line(name: &str, default: &str) -> String {
    let quoted = if default.contains([' ', '#']) { format!("\"{default}\"") } else { default.to_owned() };
    // Only what a person must fill in is not commented out.
    let comment = if matches!(name, "DISCORD_BOT_TOKEN" | "LITELLM_MODEL") { "" } else { "#" };
    format!("{comment}{name}={quoted}")
}

const HEAD: &str = "\
# Copy this file to .env and fill in the two names that are not commented out; the rest are the defaults.
# Every name also works as <NAME>_FILE (the path of a file with the value) and as /run/secrets/<name in lower case>.
# An empty value counts as not set. Durations are written 30s, 5m, 1h30m, or as plain seconds.
# This text is made from config/default.toml and src/config/env.rs; a test compares it.
";
