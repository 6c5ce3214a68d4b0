//! The text of `.env.example`, generated from the table of variables.

use std::fmt::Write as _;

use super::super::defaults::{self, DefaultKey};
use super::super::env::{self, VARIABLES, Variable};

/// Returns the text of `.env.example`: every name with its description and default.
pub fn text() -> String {
    let mut text = String::from(HEAD);
    let mut section = String::new();
    for entry in defaults::offered() {
        if entry.section() != section {
            entry.section().clone_into(&mut section);
            push(&mut text, &format!("\n# [{section}]"));
        }
        let rows: Vec<&Variable> = VARIABLES.iter().filter(|row| row.key == entry.key).collect();
        if rows.is_empty() {
            push(&mut text, &format!("# {}{}", entry.sentence, inline(&entry)));
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

/// Returns the form of a list of tables in a variable: that of the TOML in its sentence, inline.
fn inline(entry: &DefaultKey) -> String {
    let mark = format!("[[{}]] ", entry.key);
    let table = entry.sentence.split_once(&mark).and_then(|(_, table)| table.strip_suffix('.'));
    table.map(|table| format!(" Format: [{{{}}}].", table.replace('"', "'"))).unwrap_or_default()
}

fn push(text: &mut String, line: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{line}");
}

fn line(name: &str, default: &str) -> String {
    // Docker takes the quotes of its `--env-file` literally, so only a value that would be cut has them.
    let quoted =
        if default.contains(" #") || default.starts_with('#') { format!("\"{default}\"") } else { default.to_owned() };
    // Only names that the operator must set are not commented out.
    let comment = if matches!(name, "DISCORD_BOT_TOKEN" | "LITELLM_MODEL") { "" } else { "#" };
    format!("{comment}{name}={quoted}")
}

const HEAD: &str = "\
# Copy this file to .env. Set DISCORD_BOT_TOKEN, LITELLM_MODEL and, if the defaults are wrong for your model server, LITELLM_API_URL
# and LITELLM_API_KEY. All other lines show defaults. docs/guide/settings.md lists the settings that need a restart.
# Each name also works as <NAME>_FILE (path of a file with the value) and as /run/secrets/<name in lower case>.
# An empty value counts as not set. Lists: comma-separated. Durations: 30s, 5m, 1h30m, or plain seconds. Generated from config/default.toml.
";
