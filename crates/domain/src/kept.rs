//! Data stored about one person: the result of `/export`, and the target of `/forget`.

use serde_json::{Value, json};

use crate::completion::Role;
use crate::fact::Fact;
use crate::history::Exchange;
use crate::history::History;
use crate::ids::{Person, Timestamp};
use crate::summary::Summary;

/// All data found about one person.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PersonData {
    /// Their conversations.
    pub conversations: Vec<StoredConversation>,
    /// The summaries of their conversations.
    pub summaries: Vec<StoredSummary>,
    /// Keys of the records beside their conversations: counts of evicted exchanges, marks of remembered questions.
    pub beside: Vec<String>,
    /// Unreadable records that were set aside, by key.
    pub aside: Vec<(String, String)>,
    /// Exchanges kept so that replies to the bot's messages have context, by key.
    pub answers: Vec<(String, Exchange)>,
    /// Keys of indexes of their data, except for those of quotes.
    pub indexes: Vec<String>,
    /// Other members' conversations that contain their words, by key.
    pub quotes: Vec<(String, History)>,
    /// Keys of other members' conversations whose summaries may be made from their words.
    pub quoting: Vec<String>,
    /// Their facts.
    pub facts: Vec<Fact>,
    /// Tool audit lines about them, by key.
    pub audit: Vec<(String, String)>,
    /// Their recorded questions, by key, as stored.
    pub recorded: Vec<(String, String)>,
    /// The responses kept for their programs, by key, as stored.
    pub responses: Vec<(String, String)>,
    /// Their sessions, by key, as stored.
    pub sessions: Vec<(String, String)>,
    /// Lines of their transcripts, as stored. Read only for an export, at most as many as an export contains.
    pub lines: Vec<String>,
    /// The number of lines omitted.
    pub lines_left_out: usize,
    /// Their choices, by key, as stored.
    pub preferences: Option<(String, String)>,
    /// Their counted tokens, by key.
    pub usage: Vec<(String, String)>,
    /// Keys that may hold counts about them, but were empty.
    pub silent: Vec<String>,
    /// True if a record could not be read now. Its index is not among the [keys](Self::keys) to delete.
    pub unread: bool,
    /// The end of their restrictions in seconds since 1970, by community. Exported, never deleted.
    pub restricted_until: Vec<(String, String)>,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredConversation {
    /// The key in the store.
    pub key: String,
    /// The place, as named in the key.
    pub place: String,
    /// The messages. `None` if unreadable.
    pub history: Option<History>,
}

/// The summary of one conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSummary {
    /// The key in the store.
    pub key: String,
    /// The place, as named in the key.
    pub place: String,
    /// The summary.
    pub summary: Summary,
}

/// The state of a forget request after its first pass; of several accounts, the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Erasure {
    /// All data is deleted.
    Done,
    /// The request is recorded, and later passes delete what is left.
    GoesOn,
    /// The store or the journal did not answer.
    Unsure,
}

/// The number of items per kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wiped {
    /// Conversations.
    pub conversations: usize,
    /// Messages in them.
    pub messages: usize,
    /// Summaries of older exchanges.
    pub summaries: usize,
    /// Exchanges kept for single answers.
    pub answers: usize,
    /// Other members' conversations with their words.
    pub quotes: usize,
    /// Facts.
    pub facts: usize,
    /// Tool audit lines.
    pub audit: usize,
    /// Recorded questions.
    pub recorded: usize,
    /// True if there were choices.
    pub preferences: bool,
    /// True if tokens were counted.
    pub usage: bool,
    /// Questions that are still being answered.
    pub in_flight: usize,
}

impl std::ops::Add for Wiped {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            conversations: self.conversations + other.conversations,
            messages: self.messages + other.messages,
            summaries: self.summaries + other.summaries,
            answers: self.answers + other.answers,
            quotes: self.quotes + other.quotes,
            facts: self.facts + other.facts,
            audit: self.audit + other.audit,
            recorded: self.recorded + other.recorded,
            preferences: self.preferences || other.preferences,
            usage: self.usage || other.usage,
            in_flight: self.in_flight + other.in_flight,
        }
    }
}

/// Returns the first of these documents, with the others as `linked`.
#[must_use]
pub fn with_linked(documents: Vec<String>) -> String {
    let mut documents = documents.into_iter();
    let first = documents.next().unwrap_or_default();
    let others: Vec<Value> = documents.map(|document| value_of(&document)).collect();
    if others.is_empty() {
        return first;
    }
    let mut whole = value_of(&first);
    whole["linked"] = others.into();
    // Plain data with string keys always serializes.
    serde_json::to_string_pretty(&whole).unwrap_or_default()
}

impl PersonData {
    /// Returns the keys to delete.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let conversations = self.conversations.iter().map(|conversation| &conversation.key);
        let summaries = self.summaries.iter().map(|summary| &summary.key).chain(&self.beside);
        let aside = self.aside.iter().map(|(key, _)| key);
        let answers = self.answers.iter().map(|(key, _)| key);
        let preferences = self.preferences.iter().map(|(key, _)| key);
        let records = self.usage.iter().chain(&self.audit).chain(&self.sessions);
        let usage = records.chain(&self.recorded).chain(&self.responses).map(|(key, _)| key);
        let all = conversations
            .chain(summaries)
            .chain(aside)
            .chain(answers)
            .chain(&self.indexes)
            .chain(preferences)
            .chain(usage);
        all.chain(&self.silent).cloned().collect()
    }

    /// Returns the number of items per kind.
    #[must_use]
    pub fn counts(&self) -> Wiped {
        let messages =
            |conversation: &StoredConversation| conversation.history.as_ref().map_or(0, |kept| kept.entries().len());
        Wiped {
            conversations: self.conversations.len(),
            messages: self.conversations.iter().map(messages).sum(),
            summaries: self.summaries.iter().map(|stored| stored.summary.parts().len()).sum(),
            answers: self.answers.len() + self.responses.len(),
            quotes: self.quotes.len(),
            facts: self.facts.len(),
            audit: self.audit.len(),
            recorded: self.recorded.len(),
            preferences: self.preferences.is_some(),
            usage: !self.usage.is_empty(),
            in_flight: 0,
        }
    }

    /// Returns all data as one JSON document of at most `most` bytes. If it is too long, the oldest conversations are
    /// omitted, and `conversations_left_out` counts them.
    #[must_use]
    pub fn to_json(&self, person: &Person, now: Timestamp, most: usize) -> String {
        let mut conversations: Vec<&StoredConversation> = self.conversations.iter().collect();
        conversations.sort_by_key(|conversation| std::cmp::Reverse(last(conversation)));
        let mut shown = conversations.len();
        loop {
            let text = self.document(person, now, &conversations[..shown], most / 4);
            if text.len() <= most || shown == 0 {
                return text;
            }
            shown /= 2;
        }
    }

    /// Returns the document with these conversations, and with responses of at most so many bytes.
    fn document(
        &self,
        person: &Person,
        now: Timestamp,
        conversations: &[&StoredConversation],
        responses_most: usize,
    ) -> String {
        let mut left = responses_most;
        let fits = |(_, response): &&(String, String)| match left.checked_sub(response.len()) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let responses: Vec<Value> = self.responses.iter().filter(fits).map(|(_, text)| value_of(text)).collect();
        let answers = self.answers.iter().map(|(_, exchange)| {
            json!({
                "asked": exchange.asked,
                "asked_at": exchange.asked_at.as_seconds(),
                "answered": exchange.answered,
                "answered_at": exchange.answered_at.as_seconds(),
            })
        });
        let facts = self.facts.iter().map(
            |fact| json!({"text": fact.text, "place": fact.place, "told_at": fact.told.as_seconds(), "id": fact.id}),
        );
        let quotes = self.quotes.iter().flat_map(|(_, history)| history.asked_by(person));
        let document = json!({
            "person": person,
            "exported_at": now.as_seconds(),
            "conversations": conversations.iter().map(|conversation| shown(conversation)).collect::<Vec<_>>(),
            "conversations_left_out": self.conversations.len() - conversations.len(),
            "summaries": self.summaries.iter().map(summarised).collect::<Vec<_>>(),
            "unreadable": self.aside.iter().map(|(_, value)| value).collect::<Vec<_>>(),
            "answers": answers.collect::<Vec<_>>(),
            "quoted_in_conversations_of_others": quotes.collect::<Vec<_>>(),
            "facts": facts.collect::<Vec<_>>(),
            "sessions": self.sessions.iter().map(|(_, session)| value_of(session)).collect::<Vec<_>>(),
            "session_lines": self.lines.iter().map(|line| value_of(line)).collect::<Vec<_>>(),
            "session_lines_left_out": self.lines_left_out,
            "recorded_questions": self.recorded.iter().map(|(_, question)| value_of(question)).collect::<Vec<_>>(),
            "stored_responses_left_out": self.responses.len() - responses.len(),
            "stored_responses": responses,
            "tool_audit": self.audit.iter().map(|(_, line)| value_of(line)).collect::<Vec<_>>(),
            "preferences": self.preferences.as_ref().map(|(_, value)| value_of(value)),
            "usage": pairs(&self.usage),
            "restricted_until": pairs(&self.restricted_until),
        });
        // Plain data with string keys always serializes.
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}

/// Returns the time of the last message.
fn last(conversation: &StoredConversation) -> Timestamp {
    let entries = conversation.history.as_ref().map(History::entries).unwrap_or_default();
    entries.iter().map(|entry| entry.at).max().unwrap_or(Timestamp(0))
}

fn shown(conversation: &StoredConversation) -> Value {
    let messages = conversation.history.as_ref().map(|history| {
        let message = |entry: &crate::history::HistoryEntry| {
            let who = if entry.role == Role::User { "you" } else { "bot" };
            json!({"who": who, "text": entry.content, "at": entry.at.as_seconds()})
        };
        history.entries().iter().map(message).collect::<Vec<_>>()
    });
    json!({"place": conversation.place, "messages": messages})
}

fn summarised(stored: &StoredSummary) -> Value {
    let texts: Vec<&str> = stored.summary.parts().iter().map(|part| part.text.as_str()).collect();
    json!({"place": stored.place, "texts": texts})
}

fn pairs(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(key, value)| (key.clone(), value_of(value))).collect::<serde_json::Map<_, _>>().into()
}

fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Door;

    fn ada() -> Person {
        Person::new(Door::new("discord"), "7")
    }

    fn conversation(place: &str, second: u64, asked: &str) -> StoredConversation {
        let mut history = History::default();
        let at = Timestamp(second * 1_000);
        let exchange = Exchange {
            person: ada(),
            asked: asked.to_owned(),
            asked_at: at,
            answered: "aye".to_owned(),
            answered_at: at,
        };
        history.add(&exchange, 20);
        StoredConversation {
            key: format!("discord_context:7:{place}"),
            place: place.to_owned(),
            history: Some(history),
        }
    }

    fn kept() -> PersonData {
        PersonData {
            conversations: vec![conversation("42", 1, "old words"), conversation("43", 2, "young words")],
            preferences: Some(("staffai:preferences:discord:7".to_owned(), r#"{"model":"deep"}"#.to_owned())),
            audit: vec![("staffai:audit:discord:7:1:a".to_owned(), r#"{"event":"called"}"#.to_owned())],
            usage: vec![("token_stats:total:5:7".to_owned(), "120".to_owned())],
            ..PersonData::default()
        }
    }

    #[test]
    fn an_export_shows_everything_and_is_json() {
        let document: Value = serde_json::from_str(&kept().to_json(&ada(), Timestamp(9_000), 1 << 20)).unwrap();
        assert_eq!(document["person"], "discord:7");
        assert_eq!(document["conversations"][0]["place"], "43");
        assert_eq!(document["conversations"][1]["messages"][0]["text"], "old words");
        assert_eq!(document["conversations"][1]["messages"][1]["who"], "bot");
        assert_eq!(document["preferences"]["model"], "deep");
        assert_eq!(document["tool_audit"][0]["event"], "called");
        assert_eq!(document["usage"]["token_stats:total:5:7"], 120);
        assert_eq!(document["conversations_left_out"], 0);
    }

    #[test]
    fn responses_take_a_part_of_an_export_and_leave_room_for_conversations() {
        let long = |name: &str| (name.to_owned(), json!({"said": "x".repeat(300)}).to_string());
        let data = PersonData { responses: vec![long("a"), long("b")], ..kept() };
        let document: Value = serde_json::from_str(&data.to_json(&ada(), Timestamp(9_000), 2_000)).unwrap();
        assert_eq!(document["stored_responses"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&document["stored_responses_left_out"], &document["conversations_left_out"]),
            (&json!(1), &json!(0))
        );
    }

    #[test]
    fn what_is_too_long_loses_its_oldest_conversations_and_says_so() {
        let whole = kept().to_json(&ada(), Timestamp(9_000), 1 << 20);
        let cut = kept().to_json(&ada(), Timestamp(9_000), whole.len() - 1);
        let document: Value = serde_json::from_str(&cut).unwrap();
        assert_eq!(document["conversations_left_out"], 1);
        assert!(cut.contains("young words") && !cut.contains("old words"));
    }

    #[test]
    fn every_key_goes() {
        let kept = kept();
        assert_eq!(kept.keys().len(), 5);
        let counts = kept.counts();
        assert_eq!((counts.conversations, counts.messages, counts.usage), (2, 4, true));
    }
}
