//! What is kept about one person: what `/export` shows and `/forget` takes away.

use serde_json::{Value, json};

use crate::completion::Role;
use crate::fact::Fact;
use crate::history::Exchange;
use crate::history::History;
use crate::ids::{Person, Timestamp};

/// Everything that is kept about one person, as far as it was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// Their conversations, each by its key.
    pub conversations: Vec<Conversation>,
    /// Records that could not be read and were set aside, by key.
    pub aside: Vec<(String, String)>,
    /// Exchanges that are kept so that a reply to our message is understood, by key.
    pub answers: Vec<(String, Exchange)>,
    /// Keys of indexes that lead to what is theirs.
    pub indexes: Vec<String>,
    /// Conversations of others that hold words of theirs, by key.
    pub quotes: Vec<(String, History)>,
    /// Facts that they told us to keep.
    pub facts: Vec<Fact>,
    /// Lines of the audit of tools that are about them, by key.
    pub audit: Vec<(String, String)>,
    /// Sessions in which they speak, by key, as they are stored.
    pub sessions: Vec<(String, String)>,
    /// Lines of their transcripts, as they are stored; read for an export alone, and not more than one shows.
    pub lines: Vec<String>,
    /// How many lines were left out.
    pub lines_left_out: usize,
    /// Their choices, by key, as they are stored.
    pub preferences: Option<(String, String)>,
    /// Their counted tokens, by key.
    pub usage: Vec<(String, String)>,
    /// Keys that may hold counts of theirs and showed nothing.
    pub silent: Vec<String>,
    /// The end of their restrictions in seconds since 1970, by community. Shown, never taken away.
    pub restricted_until: Vec<(String, String)>,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its key in the store.
    pub key: String,
    /// Where it takes place, as the key names it.
    pub place: String,
    /// What was said; none when it cannot be read.
    pub history: Option<History>,
}

/// How much there was of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wiped {
    /// Conversations.
    pub conversations: usize,
    /// Messages in them.
    pub messages: usize,
    /// Exchanges behind single answers.
    pub answers: usize,
    /// Conversations of others in which their words stood.
    pub quotes: usize,
    /// Facts.
    pub facts: usize,
    /// Lines of the audit of tools.
    pub audit: usize,
    /// Whether there were choices.
    pub preferences: bool,
    /// Whether tokens were counted.
    pub usage: bool,
    /// Questions that are still being answered.
    pub in_flight: usize,
}

impl Kept {
    /// The keys that go.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let conversations = self.conversations.iter().map(|conversation| &conversation.key);
        let aside = self.aside.iter().map(|(key, _)| key);
        let answers = self.answers.iter().map(|(key, _)| key);
        let preferences = self.preferences.iter().map(|(key, _)| key);
        let usage = self.usage.iter().chain(&self.audit).chain(&self.sessions).map(|(key, _)| key);
        let all = conversations.chain(aside).chain(answers).chain(&self.indexes).chain(preferences).chain(usage);
        all.chain(&self.silent).cloned().collect()
    }

    /// How much of each kind there is.
    #[must_use]
    pub fn counts(&self) -> Wiped {
        let messages =
            |conversation: &Conversation| conversation.history.as_ref().map_or(0, |kept| kept.entries().len());
        Wiped {
            conversations: self.conversations.len(),
            messages: self.conversations.iter().map(messages).sum(),
            answers: self.answers.len(),
            quotes: self.quotes.len(),
            facts: self.facts.len(),
            audit: self.audit.len(),
            preferences: self.preferences.is_some(),
            usage: !self.usage.is_empty(),
            in_flight: 0,
        }
    }

    /// Everything as one JSON document of at most `most` bytes. When it would be longer the oldest conversations are left
    /// out, and `left_out` says how many.
    #[must_use]
    pub fn to_json(&self, person: &Person, now: Timestamp, most: usize) -> String {
        let mut conversations: Vec<&Conversation> = self.conversations.iter().collect();
        conversations.sort_by_key(|conversation| std::cmp::Reverse(last(conversation)));
        let mut shown = conversations.len();
        loop {
            let text = self.document(person, now, &conversations[..shown]);
            if text.len() <= most || shown == 0 {
                return text;
            }
            shown /= 2;
        }
    }

    fn document(&self, person: &Person, now: Timestamp, conversations: &[&Conversation]) -> String {
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
            "unreadable": self.aside.iter().map(|(_, value)| value).collect::<Vec<_>>(),
            "answers": answers.collect::<Vec<_>>(),
            "quoted_in_conversations_of_others": quotes.collect::<Vec<_>>(),
            "facts": facts.collect::<Vec<_>>(),
            "sessions": self.sessions.iter().map(|(_, session)| value_of(session)).collect::<Vec<_>>(),
            "session_lines": self.lines.iter().map(|line| value_of(line)).collect::<Vec<_>>(),
            "session_lines_left_out": self.lines_left_out,
            "tool_audit": self.audit.iter().map(|(_, line)| value_of(line)).collect::<Vec<_>>(),
            "preferences": self.preferences.as_ref().map(|(_, value)| value_of(value)),
            "usage": pairs(&self.usage),
            "restricted_until": pairs(&self.restricted_until),
        });
        // Plain data with string keys always serialises.
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}

/// The moment of the last message.
fn last(conversation: &Conversation) -> Timestamp {
    let entries = conversation.history.as_ref().map(History::entries).unwrap_or_default();
    entries.iter().map(|entry| entry.at).max().unwrap_or(Timestamp(0))
}

fn shown(conversation: &Conversation) -> Value {
    let messages = conversation.history.as_ref().map(|history| {
        let message = |entry: &crate::history::Entry| {
            let who = if entry.role == Role::User { "you" } else { "bot" };
            json!({"who": who, "text": entry.content, "at": entry.at.as_seconds()})
        };
        history.entries().iter().map(message).collect::<Vec<_>>()
    });
    json!({"place": conversation.place, "messages": messages})
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

    fn conversation(place: &str, second: u64, asked: &str) -> Conversation {
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
        Conversation { key: format!("discord_context:7:{place}"), place: place.to_owned(), history: Some(history) }
    }

    fn kept() -> Kept {
        Kept {
            conversations: vec![conversation("42", 1, "old words"), conversation("43", 2, "young words")],
            preferences: Some(("staffai:preferences:discord:7".to_owned(), r#"{"model":"deep"}"#.to_owned())),
            audit: vec![("staffai:audit:discord:7:1:a".to_owned(), r#"{"event":"called"}"#.to_owned())],
            usage: vec![("token_stats:total:5:7".to_owned(), "120".to_owned())],
            ..Kept::default()
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
