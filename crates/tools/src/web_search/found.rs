//! Extracts results from a provider's response, within bounds.

use std::fmt::Write as _;

use serde_json::Value;

use super::provider::Provider;

/// Maximum lengths: characters of a title and of a snippet, bytes of an address.
const TITLE_CHARS: usize = 200;
const SNIPPET_CHARS: usize = 800;
const LINK_BYTES: usize = 1_000;
/// Maximum length of a direct answer, in characters.
const ANSWER_CHARS: usize = 4_000;
/// Maximum length of an error message, in characters.
const ERROR_CHARS: usize = 200;
/// Maximum number of values read per path.
const VALUES_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub title: String,
    pub link: String,
    pub snippet: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// A direct answer; may be empty.
    pub answer: String,
    pub hits: Vec<Hit>,
}

impl Found {
    /// Extracts at most `most` results, each address once.
    pub(super) fn read(provider: &Provider, answer: &Value, most: usize) -> Self {
        let said = provider.answers.iter().flat_map(|path| values(answer, path));
        let said = said.filter_map(Value::as_str).map(|text| cut(text, ANSWER_CHARS)).find(|text| !text.is_empty());
        let mut hits: Vec<Hit> = Vec::new();
        for item in provider.results.iter().flat_map(|path| values(answer, path)) {
            if hits.len() == most {
                break;
            }
            let field = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
            let link = field(provider.link).trim();
            let web = link.starts_with("https://") || link.starts_with("http://");
            let plain = !link.chars().any(|c| c.is_whitespace() || c.is_control());
            if !(web && plain) || link.len() > LINK_BYTES || hits.iter().any(|hit| hit.link == link) {
                continue;
            }
            let (title, snippet) =
                (cut(field(provider.title), TITLE_CHARS), cut(field(provider.snippet), SNIPPET_CHARS));
            hits.push(Hit { title, link: link.to_owned(), snippet });
        }
        Self { answer: said.unwrap_or_default(), hits }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.answer.is_empty() && self.hits.is_empty()
    }

    /// Formats the results for a model.
    pub(super) fn shown(&self) -> String {
        let mut text = self.answer.clone();
        for (index, Hit { title, link, snippet }) in self.hits.iter().enumerate() {
            let before = if text.is_empty() { "" } else { "\n\n" };
            let title = if title.is_empty() { String::new() } else { format!("{title}\n") };
            let snippet = if snippet.is_empty() { String::new() } else { format!("\n{snippet}") };
            // Writing into a string cannot fail.
            let _ = write!(text, "{before}{}. {title}{link}{snippet}", index + 1);
        }
        text
    }
}

/// Returns the provider's message about a failure; may be empty.
pub(super) fn complaint(provider: &Provider, answer: &Value) -> String {
    let words = provider.errors.iter().flat_map(|path| values(answer, path)).find_map(Value::as_str);
    cut(words.unwrap_or_default(), ERROR_CHARS)
}

/// Returns the values at a path of names, in which `*` stands for each item of a list.
fn values<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in path.split('/') {
        let next = found.into_iter().flat_map(|value| match (step, value) {
            ("*", Value::Array(items)) => items.iter().collect(),
            ("*", _) => Vec::new(),
            (name, value) => value.get(name).into_iter().collect::<Vec<_>>(),
        });
        found = next.take(VALUES_MAX).collect();
    }
    found
}

/// Formats a text as one line of at most `most` characters.
fn cut(text: &str, most: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
        if line.len() > most * 4 {
            break;
        }
    }
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}\u{2026}", line[..end].trim_end()),
        None => line,
    }
}
