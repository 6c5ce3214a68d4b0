//! What was said before in one conversation, in the stored form that the Python bot also reads and writes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::completion::Role;
use super::ids::{Person, Timestamp};

/// The most entries that are taken from a stored text: the newest ones.
pub const MAX_STORED_ENTRIES: usize = 1_000;

/// The longest stored text that is read, in bytes.
pub const MAX_STORED_BYTES: usize = 8 * 1024 * 1024;

/// The end of the year 9999 in seconds: a later time is nonsense and would never age out.
const LATEST_SECONDS: f64 = 253_402_300_799.0;

/// What one answered turn adds to memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Who asked.
    pub person: Person,
    /// What was asked.
    pub asked: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// What we answered.
    pub answered: String,
    /// When we answered.
    pub answered_at: Timestamp,
}

/// The messages of one conversation, in the order in which they were exchanged. A question that had to wait stands before its
/// own answer, not between an earlier question and its answer, so timestamps need not rise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    entries: Vec<Entry>,
}

/// One remembered message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Who spoke: the person or we.
    pub role: Role,
    /// What was said.
    pub content: String,
    /// When it was said. Never changed afterwards: it decides when the message is forgotten.
    pub at: Timestamp,
}

/// A message as it is stored.
#[derive(Serialize)]
struct Stored<'a> {
    content: &'a str,
    role: &'static str,
    timestamp: f64,
}

/// A stored text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The usable messages.
    pub history: History,
    /// How many entries were unusable and left out.
    pub dropped: usize,
}

/// A stored text that is no history at all and should be set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHistory {
    /// It is too long to be read.
    #[error("{0} bytes are more than a stored history may have")]
    TooLong(usize),
    /// It is not JSON.
    #[error("not json: {0}")]
    NotJson(String),
    /// It is JSON, but no array.
    #[error("not a json array")]
    NotArray,
}

impl History {
    /// Reads the stored form. Unusable entries are left out and counted.
    ///
    /// # Errors
    /// [`NotHistory`] when the text as a whole cannot be a history.
    pub fn parse(stored: &str) -> Result<Parsed, NotHistory> {
        if stored.len() > MAX_STORED_BYTES {
            return Err(NotHistory::TooLong(stored.len()));
        }
        let value: Value = serde_json::from_str(stored).map_err(|error| NotHistory::NotJson(error.to_string()))?;
        let Value::Array(items) = value else {
            return Err(NotHistory::NotArray);
        };
        let total = items.len();
        let mut entries: Vec<Entry> = Vec::with_capacity(total.min(MAX_STORED_ENTRIES));
        for item in items.into_iter().skip(total.saturating_sub(MAX_STORED_ENTRIES)) {
            // A missing time is taken from the message before: it is at least that old in the order of the conversation.
            let before = entries.last().map_or(Timestamp(0), |entry| entry.at);
            entries.extend(read_entry(item, before));
        }
        Ok(Parsed { dropped: total - entries.len(), history: Self { entries } })
    }

    /// The stored form: an array of objects with `role`, `content` and `timestamp` (seconds with a fraction).
    #[must_use]
    pub fn to_json(&self) -> String {
        let stored = self.entries.iter().map(|entry| Stored {
            content: &entry.content,
            role: entry.role.as_str(),
            timestamp: entry.at.as_seconds(),
        });
        // Plain data with string keys always serialises.
        serde_json::to_string(&stored.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// All messages, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The messages that are not older than `max_age`, each by its own time; zero means that nothing ages.
    fn live(&self, now: Timestamp, max_age: Duration) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| max_age.is_zero() || now.since(entry.at) <= max_age).collect()
    }

    /// Adds a completed exchange and keeps the newest `max_messages`. An earlier answer to the same question is replaced, so
    /// that a repeated step changes nothing.
    pub fn add(&mut self, exchange: &Exchange, max_messages: usize) {
        self.forget(&exchange.asked, exchange.asked_at);
        let pair = pair(exchange, exchange.asked.clone());
        self.insert(self.place_in_time(&pair), pair, max_messages);
    }

    /// What a model is shown: of the messages that are not older than `max_age` the newest `most`, and behind them what the
    /// question refers to, however old it is, unless it stands among them.
    #[must_use]
    pub fn shown<'a>(
        &'a self,
        now: Timestamp,
        max_age: Duration,
        most: usize,
        referred: &'a [Entry],
    ) -> Vec<&'a Entry> {
        let mut shown = self.live(now, max_age);
        shown.drain(..shown.len().saturating_sub(most));
        if !referred.iter().all(|entry| shown.contains(&entry)) {
            shown.retain(|entry| !referred.contains(entry));
            shown.extend(referred);
        }
        shown
    }

    /// Adds an exchange from elsewhere that `owner` refers to, unless it is already here: at its place in time or, where it
    /// would be among the first to go, as the last. What another person asked is marked as theirs; an exchange without a
    /// question (we spoke up by ourselves) is our message alone. Gives the exchange as it is told here.
    pub fn merge(&mut self, exchange: &Exchange, owner: &Person, max_messages: usize) -> Vec<Entry> {
        let asked = if exchange.person == *owner || exchange.asked.trim().is_empty() {
            exchange.asked.clone()
        } else {
            format!("{}{}", mark(&exchange.person), exchange.asked)
        };
        let pair = pair(exchange, asked);
        if !pair.iter().any(|entry| self.entries.contains(entry)) {
            let place = self.place_in_time(&pair);
            // The exchange that refers to it comes next, and is worth little without it.
            let stays = self.entries.len() - place + pair.len() + EXCHANGE <= max_messages;
            self.insert(if stays { place } else { self.entries.len() }, pair.clone(), max_messages);
        }
        pair
    }

    /// Before the first question that was asked later: never between a question and its answer.
    fn place_in_time(&self, pair: &[Entry]) -> usize {
        let later = |entry: &Entry| entry.role == Role::User && pair.first().is_some_and(|first| entry.at > first.at);
        self.entries.iter().position(later).unwrap_or(self.entries.len())
    }

    fn insert(&mut self, place: usize, pair: Vec<Entry>, max_messages: usize) {
        self.entries.splice(place..place, pair);
        let excess = self.entries.len().saturating_sub(max_messages);
        self.entries.drain(..excess);
    }

    /// Takes out everything up to this moment: questions asked by then, with their answers.
    pub fn forget_until(&mut self, cut: Timestamp) {
        self.forget_where(|entry| entry.at <= cut);
    }

    /// Takes out what this person asked elsewhere up to this moment, with the answers.
    pub fn forget_asked_by(&mut self, person: &Person, cut: Timestamp) {
        let mark = mark(person);
        self.forget_where(|entry| entry.at <= cut && entry.content.starts_with(&mark));
    }

    /// What this person asked elsewhere, as it is told here.
    pub fn asked_by<'a>(&'a self, person: &Person) -> impl Iterator<Item = &'a str> {
        let mark = mark(person);
        let questions = self.entries.iter().filter(|entry| entry.role == Role::User);
        questions.filter_map(move |entry| entry.content.strip_prefix(&mark))
    }

    /// The ids of those whose questions were taken over from elsewhere.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let questions = self.entries.iter().filter(|entry| entry.role == Role::User);
        questions.filter_map(|entry| entry.content.strip_prefix(MARK)?.split_once("] ").map(|(id, _)| id))
    }

    /// Takes out questions and what follows each up to the next one. An answer without a question counts as one.
    fn forget_where(&mut self, matches: impl Fn(&Entry) -> bool) {
        let mut forgetting = false;
        let mut first = true;
        self.entries.retain(|entry| {
            if first || entry.role == Role::User {
                forgetting = matches(entry);
            }
            first = false;
            !forgetting
        });
    }

    /// Takes out the exchange that answered this question: who answers it once more must not see it as past.
    pub fn forget(&mut self, question: &str, asked_at: Timestamp) {
        let asked = |entry: &Entry| entry.role == Role::User && entry.at == asked_at && entry.content == question;
        if let Some(place) = self.entries.iter().position(asked) {
            let answered = self.entries.get(place + 1).is_some_and(|next| next.role == Role::Assistant);
            self.entries.drain(place..=place + usize::from(answered));
        }
    }
}

/// The messages of a usual exchange.
const EXCHANGE: usize = 2;

/// How a question begins that somebody else asked elsewhere; their id and a bracket follow.
const MARK: &str = "[asked by member ";

fn mark(person: &Person) -> String {
    format!("{MARK}{}] ", person.id)
}

/// The messages of an exchange, blank ones left out.
fn pair(exchange: &Exchange, asked: String) -> Vec<Entry> {
    [
        Entry { role: Role::User, content: asked, at: exchange.asked_at },
        Entry { role: Role::Assistant, content: exchange.answered.clone(), at: exchange.answered_at },
    ]
    .into_iter()
    .filter(|entry| !entry.content.trim().is_empty())
    .collect()
}

fn read_entry(item: Value, before: Timestamp) -> Option<Entry> {
    let Value::Object(mut fields) = item else {
        return None;
    };
    let role = match fields.get("role")?.as_str()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // A stored instruction of ours never existed; one that claims to be is not trusted.
        _ => return None,
    };
    let Some(Value::String(content)) = fields.remove("content") else {
        return None;
    };
    if content.trim().is_empty() {
        return None;
    }
    let at = match fields.get("timestamp") {
        None | Some(Value::Null) => before,
        Some(Value::String(text)) => from_seconds(text.trim().parse().ok()?)?,
        Some(number) => from_seconds(number.as_f64()?)?,
    };
    Some(Entry { role, content, at })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn from_seconds(seconds: f64) -> Option<Timestamp> {
    (0.0..=LATEST_SECONDS).contains(&seconds).then(|| Timestamp((seconds * 1000.0).round() as u64))
}

#[cfg(test)]
mod tests;
