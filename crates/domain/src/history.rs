//! The history of one conversation, in the stored form that the Python bot also reads and writes.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clean::clean;
use super::completion::Role;
use super::forgetting::Forgetting;
use super::ids::{Person, Timestamp};

/// Maximum number of entries read from a stored text; the newest are kept.
pub const MAX_STORED_ENTRIES: usize = 1_000;

/// The longest stored text that is read, in bytes.
pub const MAX_STORED_BYTES: usize = 8 * 1024 * 1024;

/// The end of the year 9999 in seconds. A later time is invalid and would never expire.
const LATEST_SECONDS: f64 = 253_402_300_799.0;

/// The entries that one answered turn adds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// The member who asked.
    pub person: Person,
    /// The question.
    pub asked: String,
    /// The time of the question.
    pub asked_at: Timestamp,
    /// The answer.
    pub answered: String,
    /// The time of the answer.
    pub answered_at: Timestamp,
}

/// The mark behind the heard part of an interrupted answer.
const INTERRUPTED: &str = "[interrupted here: the rest was not heard]";

/// The maximum length of a call's result in a history, in characters.
const ACT_MAX: usize = 300;

/// Returns the stored form of an answer that was interrupted after these words: the mark tells the model.
#[must_use]
pub fn interrupted(heard: &str) -> String {
    format!("{} {INTERRUPTED}", heard.trim_end()).trim_start().to_owned()
}

/// A call that changes something, in a turn whose answer was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The name of the tool.
    pub tool: String,
    /// Its result, [shortened](Self::shortened). `None` if it is not known: the call may have run.
    pub result: Option<String>,
}

impl Act {
    /// Returns a result in one line of bounded length, without invisible characters and without the brackets and
    /// quotation marks around it.
    #[must_use]
    pub fn shortened(result: &str) -> String {
        let result = clean(result, usize::MAX);
        let plain = |c: char| match c {
            '[' => '(',
            ']' => ')',
            '"' => '\'',
            _ if c.is_whitespace() => ' ',
            _ => c,
        };
        let mut short: String = result.trim().chars().take(ACT_MAX).map(plain).collect();
        if result.trim().chars().nth(ACT_MAX).is_some() {
            short.push('…');
        }
        short
    }
}

impl Display for Act {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.result {
            Some(result) => write!(f, "[tool {} was called; its result, which is data: \"{result}\"]", self.tool),
            None => write!(f, "[tool {} was called; it may have run, and its result is not known]", self.tool),
        }
    }
}

/// The messages of one conversation, in the order of their exchanges. A question that was queued is directly before
/// its own answer, so timestamps need not increase.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    entries: Vec<HistoryEntry>,
    /// The questions that the bound evicted since the history was parsed.
    evicted: usize,
    /// True if earlier messages may be stored that could not be read.
    is_part: bool,
}

/// One stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The speaker: the member or the bot.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The time of the message. It never changes, because it decides when the message expires.
    pub at: Timestamp,
}

impl HistoryEntry {
    /// Returns the id of the member whose question was copied from elsewhere; `None` for other messages.
    #[must_use]
    pub fn other(&self) -> Option<&str> {
        let marked = self.content.strip_prefix(MARK).filter(|_| self.role == Role::User);
        marked?.split_once("] ").map(|(id, _)| id)
    }
}

/// The stored form of a message.
#[derive(Serialize)]
struct Stored<'a> {
    content: &'a str,
    role: &'static str,
    timestamp: f64,
}

/// The result of parsing a stored text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The valid messages.
    pub history: History,
    /// The number of invalid entries omitted.
    pub dropped: usize,
}

/// The error for a stored text that is no history, which the caller should set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHistory {
    /// The text is too long.
    #[error("{0} bytes are more than a stored history may have")]
    TooLong(usize),
    /// The text is not JSON.
    #[error("not json: {0}")]
    NotJson(String),
    /// The JSON is not an array.
    #[error("not a json array")]
    NotArray,
}

impl History {
    /// Parses the stored form. Invalid entries are omitted and counted.
    ///
    /// # Errors
    /// [`NotHistory`] if the text as a whole is not a history.
    pub fn parse(stored: &str) -> Result<Parsed, NotHistory> {
        if stored.len() > MAX_STORED_BYTES {
            return Err(NotHistory::TooLong(stored.len()));
        }
        let value: Value = serde_json::from_str(stored).map_err(|error| NotHistory::NotJson(error.to_string()))?;
        let Value::Array(items) = value else {
            return Err(NotHistory::NotArray);
        };
        let total = items.len();
        let mut entries: Vec<HistoryEntry> = Vec::with_capacity(total.min(MAX_STORED_ENTRIES));
        for item in items.into_iter().skip(total.saturating_sub(MAX_STORED_ENTRIES)) {
            // A missing time is copied from the previous message: in the order of the conversation, the entry is not
            // older.
            let before = entries.last().map_or(Timestamp(0), |entry| entry.at);
            entries.extend(read_entry(item, before));
        }
        Ok(Parsed { dropped: total - entries.len(), history: Self { entries, is_part: false, evicted: 0 } })
    }

    /// Returns the stored form: an array of objects with `role`, `content` and `timestamp` (fractional seconds).
    #[must_use]
    pub fn to_json(&self) -> String {
        let stored = self.entries.iter().map(|entry| Stored {
            content: &entry.content,
            role: entry.role.as_str(),
            timestamp: entry.at.as_seconds(),
        });
        // Plain data with string keys always serializes.
        serde_json::to_string(&stored.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Returns the stored form of a stored history with the messages of a later one added that it lacks. The messages
    /// of the later one stay together.
    ///
    /// # Errors
    /// [`NotHistory`] if the stored text is not a history. A later text that is none adds nothing.
    pub fn joined(stored: &str, later: &str) -> Result<String, NotHistory> {
        let Parsed { mut history, .. } = Self::parse(stored)?;
        let Ok(Parsed { history: later, .. }) = Self::parse(later) else { return Ok(history.to_json()) };
        let known: HashSet<(Timestamp, &str)> = later.entries.iter().map(HistoryEntry::identity).collect();
        // The answer of a question that was answered again is replaced with it.
        let mut answered_again = false;
        history.entries.retain(|entry| {
            let repeated = known.contains(&entry.identity());
            let replaced = answered_again && entry.role == Role::Assistant;
            answered_again = repeated && entry.role == Role::User;
            !repeated && !replaced
        });
        drop(known);
        history.entries.extend(later.entries);
        let text = history.to_json();
        if text.len() > MAX_STORED_BYTES { Err(NotHistory::TooLong(text.len())) } else { Ok(text) }
    }

    /// Returns an empty history in place of one that cannot be read.
    #[must_use]
    pub fn unread() -> Self {
        Self { is_part: true, ..Self::default() }
    }

    /// True if earlier messages may be stored that could not be read.
    #[must_use]
    pub const fn is_part(&self) -> bool {
        self.is_part
    }

    /// Marks this history as [a part](Self::is_part).
    #[must_use]
    pub fn as_part(self) -> Self {
        Self { is_part: true, ..self }
    }

    /// Returns all messages in order.
    #[must_use]
    pub fn entries(&self) -> &[HistoryEntry] {
        &self.entries
    }

    /// Returns the exchanges in order: a question, and the messages up to the next one. A leading answer begins one too.
    pub fn exchanges(&self) -> impl Iterator<Item = &[HistoryEntry]> {
        self.entries.chunk_by(|_, next| next.role != Role::User)
    }

    /// Returns the number of questions that the bound evicted since the history was parsed.
    #[must_use]
    pub const fn evicted(&self) -> usize {
        self.evicted
    }

    /// Returns the messages not older than `max_age`, each by its own time; zero means no expiry.
    fn live(&self, now: Timestamp, max_age: Duration) -> Vec<&HistoryEntry> {
        self.entries.iter().filter(|entry| max_age.is_zero() || now.since(entry.at) <= max_age).collect()
    }

    /// Adds a completed exchange and keeps the newest `max_messages`. Idempotent: an earlier answer to the same
    /// question is replaced.
    pub fn add(&mut self, exchange: &Exchange, max_messages: usize) {
        self.forget(&exchange.asked, exchange.asked_at);
        let pair = pair(exchange, exchange.asked.clone());
        self.insert(self.place_in_time(&pair), pair, max_messages);
    }

    /// Adds these calls behind the mark of the interrupted answer to the question of this time, in place of those that
    /// are there. Other answers do not change.
    pub fn tell_acts(&mut self, asked_at: Timestamp, acts: &[Act]) {
        let asked = |entry: &HistoryEntry| entry.role == Role::User && entry.at == asked_at && entry.other().is_none();
        let Some(place) = self.entries.iter().position(asked) else { return };
        let Some(answer) = self.entries.get_mut(place + 1).filter(|next| next.role == Role::Assistant) else { return };
        let Some(mark) = answer.content.rfind(INTERRUPTED) else { return };
        answer.content.truncate(mark + INTERRUPTED.len());
        answer.content.extend(acts.iter().map(|act| format!(" {act}")));
    }

    /// Returns the messages for a model: the newest `most` not older than `max_age`, then the messages that the
    /// question refers to, of any age, unless they are included already.
    #[must_use]
    pub fn shown<'a>(
        &'a self,
        now: Timestamp,
        max_age: Duration,
        most: usize,
        referred: &'a [HistoryEntry],
    ) -> Vec<&'a HistoryEntry> {
        let mut shown = self.live(now, max_age);
        shown.drain(..shown.len().saturating_sub(most));
        if !referred.iter().all(|entry| shown.contains(&entry)) {
            shown.retain(|entry| !referred.contains(entry));
            shown.extend(referred);
        }
        shown
    }

    /// Returns the messages that [`Self::shown`] omits because of `most`, not because of their age.
    #[must_use]
    pub fn left_out(&self, now: Timestamp, max_age: Duration, most: usize) -> Vec<&HistoryEntry> {
        let mut live = self.live(now, max_age);
        live.truncate(live.len().saturating_sub(most));
        live
    }

    /// Adds an exchange from elsewhere that `owner` refers to, unless it is present. It is inserted by time, or last
    /// if it would soon be evicted. Another member's question is marked with their id; an exchange without a question
    /// (an interjection) is the bot's message alone. Returns the exchange as stored here.
    pub fn merge(&mut self, exchange: &Exchange, owner: &Person, max_messages: usize) -> Vec<HistoryEntry> {
        let asked = if exchange.person == *owner || exchange.asked.trim().is_empty() {
            exchange.asked.clone()
        } else {
            format!("{}{}", mark(&exchange.person), exchange.asked)
        };
        let pair = pair(exchange, asked);
        if !pair.iter().any(|entry| self.entries.contains(entry)) {
            let place = self.place_in_time(&pair);
            // The exchange that refers to it is added next, and depends on it.
            let stays = self.entries.len() - place + pair.len() + EXCHANGE <= max_messages;
            self.insert(if stays { place } else { self.entries.len() }, pair.clone(), max_messages);
        }
        pair
    }

    /// Returns the index of the first later question, so that a question and its answer are never separated.
    fn place_in_time(&self, pair: &[HistoryEntry]) -> usize {
        let later =
            |entry: &HistoryEntry| entry.role == Role::User && pair.first().is_some_and(|first| entry.at > first.at);
        self.entries.iter().position(later).unwrap_or(self.entries.len())
    }

    fn insert(&mut self, place: usize, pair: Vec<HistoryEntry>, max_messages: usize) {
        self.entries.splice(place..place, pair);
        let excess = self.entries.len().saturating_sub(max_messages);
        self.evicted += self.entries.drain(..excess).filter(|entry| entry.role == Role::User).count();
    }

    /// Returns this person's questions from elsewhere, as stored here.
    pub fn asked_by<'a>(&'a self, person: &Person) -> impl Iterator<Item = &'a str> {
        let mark = mark(person);
        let questions = self.entries.iter().filter(|entry| entry.role == Role::User);
        questions.filter_map(move |entry| entry.content.strip_prefix(&mark))
    }

    /// Removes matching questions, each with the messages up to the next question. A leading answer counts as a
    /// question.
    fn forget_where(&mut self, matches: impl Fn(&HistoryEntry) -> bool) {
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

    /// Removes the exchange of this question, so that a repeated turn does not see its earlier answer.
    pub fn forget(&mut self, question: &str, asked_at: Timestamp) {
        let asked =
            |entry: &HistoryEntry| entry.role == Role::User && entry.at == asked_at && entry.content == question;
        if let Some(place) = self.entries.iter().position(asked) {
            let answered = self.entries.get(place + 1).is_some_and(|next| next.role == Role::Assistant);
            self.entries.drain(place..=place + usize::from(answered));
        }
    }
}

/// Each question goes with its answer.
impl Forgetting for History {
    fn others(&self) -> Vec<&str> {
        self.entries.iter().filter_map(HistoryEntry::other).collect()
    }

    fn forget_until(&mut self, cut: Timestamp) {
        self.forget_where(|entry| entry.at <= cut);
    }

    fn forget_asked_by(&mut self, other: &Person, cut: Timestamp) {
        let mark = mark(other);
        self.forget_where(|entry| entry.at <= cut && entry.content.starts_with(&mark));
    }

    fn forget_asked_at(&mut self, other: Option<&Person>, at: Timestamp) {
        let id = other.map(|person| &*person.id);
        self.forget_where(|entry| entry.at == at && entry.role == Role::User && entry.other() == id);
    }
}

impl HistoryEntry {
    /// Returns the parts that distinguish this message from others of its conversation.
    fn identity(&self) -> (Timestamp, &str) {
        (self.at, &self.content)
    }
}

/// The number of messages of a usual exchange.
const EXCHANGE: usize = 2;

/// The prefix of another member's question from elsewhere; their id and a bracket follow.
const MARK: &str = "[asked by member ";

fn mark(person: &Person) -> String {
    format!("{MARK}{}] ", person.id)
}

/// Returns the messages of an exchange without blank ones.
fn pair(exchange: &Exchange, asked: String) -> Vec<HistoryEntry> {
    [
        HistoryEntry { role: Role::User, content: asked, at: exchange.asked_at },
        HistoryEntry { role: Role::Assistant, content: exchange.answered.clone(), at: exchange.answered_at },
    ]
    .into_iter()
    .filter(|entry| !entry.content.trim().is_empty())
    .collect()
}

fn read_entry(item: Value, before: Timestamp) -> Option<HistoryEntry> {
    let Value::Object(mut fields) = item else {
        return None;
    };
    let role = match fields.get("role")?.as_str()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // Stored instructions never existed; an entry that claims to be one is not trusted.
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
    Some(HistoryEntry { role, content, at })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn from_seconds(seconds: f64) -> Option<Timestamp> {
    (0.0..=LATEST_SECONDS).contains(&seconds).then(|| Timestamp((seconds * 1000.0).round() as u64))
}

#[cfg(test)]
mod tests;
