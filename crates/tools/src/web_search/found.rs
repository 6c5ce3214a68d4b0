//! What is taken out of the answer of a provider, within bounds.

use std::fmt::Write as _;

use serde_json::Value;

use super::provider::Provider;

/// The longest of each that is shown: characters of a title and of what is said about it, bytes of an address.
const TITLE_CHARS: usize = 200;
const SNIPPET_CHARS: usize = 800;
const LINK_BYTES: usize = 1_000;
/// The longest text that answers by itself, in characters.
const ANSWER_CHARS: usize = 4_000;
/// The longest words of an error, in characters.
const ERROR_CHARS: usize = 200;
/// The most values that are looked at behind one path.
const VALUES_MAX: usize = 1_000;

/// One result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub title: String,
    pub link: String,
    pub snippet: String,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// A text that answers by itself; empty when there is none.
    pub answer: String,
    pub hits: Vec<Hit>,
}

impl Found {
    /// What is in an answer: so many results at most, each address once.
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

    /// As a model reads it.
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

/// What a provider says about a failure; empty when it says nothing.
pub(super) fn complaint(provider: &Provider, answer: &Value) -> String {
    let words = provider.errors.iter().flat_map(|path| values(answer, path)).find_map(Value::as_str);
    cut(words.unwrap_or_default(), ERROR_CHARS)
}

/// The values behind a path of names, in which `*` stands for each item of a list.
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

/// A text as one line of at most so many characters.
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
