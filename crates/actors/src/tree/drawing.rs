//! The tree as text and as the block in `actors.md`.

use std::fmt::Write as _;

use super::{TREE, TreeRow};
use domain::restart::{Intensity, Restart};

/// Returns the tree as text for a terminal.
#[must_use]
pub fn text() -> String {
    let mut lines = Vec::new();
    draw(&TREE, "", "", &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, row) in lines {
        let _ = writeln!(text, "{name:width$}  {:60}  {}", row.policy(), row.role);
    }
    text
}

/// Returns the tree as the block in `actors.md`.
#[must_use]
pub fn markdown() -> String {
    let mut lines = Vec::new();
    draw(&TREE, "", "", &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::from("```text\n");
    for (name, row) in lines {
        let _ = writeln!(text, "{}", format!("{name:width$}  {}", row.role).trim_end());
    }
    text.push_str("```\n\n| actor | restart | backoff | children | mailbox | handler timeout | stop timeout |\n|---|---|---|---|---|---|---|\n");
    table(&TREE, &mut text);
    text
}

fn draw(row: &'static TreeRow, lead: &str, indent: &str, lines: &mut Vec<(String, &'static TreeRow)>) {
    lines.push((format!("{lead}{}", row.name), row));
    for (index, child) in row.children.iter().enumerate() {
        let (branch, below) = if index + 1 == row.children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(child, &format!("{indent}{branch}"), &format!("{indent}{below}"), lines);
    }
}

fn table(row: &'static TreeRow, text: &mut String) {
    let children = if row.children.is_empty() {
        "none".to_owned()
    } else {
        let Intensity { restarts, period } = row.intensity;
        format!("one_for_one, at most {restarts} counted restarts of a child in {} s", period.as_secs())
    };
    let backoff = match row.restart {
        Restart::Temporary => "none".to_owned(),
        Restart::Permanent | Restart::Transient => {
            format!("{} ms to {} s, full jitter", row.backoff.base.as_millis(), row.backoff.cap.as_secs())
        }
    };
    let (stop, restart) = (row.stop_timeout.as_secs(), row.restart.as_str());
    let handles = format!("{} s, then {}", row.handler_timeout.as_secs(), row.on_hang.as_str());
    let (name, mailbox) = (row.name, row.mailbox);
    let _ = writeln!(text, "| `{name}` | {restart} | {backoff} | {children} | {mailbox} | {handles} | {stop} s |");
    for child in row.children {
        table(child, text);
    }
}
