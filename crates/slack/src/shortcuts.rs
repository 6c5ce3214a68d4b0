//! The message shortcut "ask about this message", and the question of its dialogue.
//!
//! Sources: `docs.slack.dev/reference/interaction-payloads/shortcuts-interaction-payload`,
//! `docs.slack.dev/reference/interaction-payloads/view-interactions-payload`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bounded::parsed;
use super::ids;
use super::unreadable::Unreadable;

/// The name of the shortcut and its dialogue.
pub(super) const ASK: &str = "ask";
/// The longest text of the message that the dialogue carries, in characters: its data has at most 3,000.
const TEXT_MAX: usize = 1_200;
/// The longest question, in characters.
pub(super) const QUESTION_MAX: usize = 2_000;
/// The longest data of a dialogue that is read, in bytes.
const DATA_BYTES: usize = 16 * 1024;

/// A shortcut that a member used on a message.
#[derive(Debug)]
pub(super) struct Shortcut {
    pub(super) trigger: String,
    pub(super) about: About,
}

/// The message of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) channel: String,
    pub(super) ts: String,
    /// The timestamp of the first message of its thread.
    pub(super) root: String,
    pub(super) user: String,
    pub(super) text: String,
}

/// A question about a message.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) user: String,
    /// The id of the dialogue.
    pub(super) view: String,
    pub(super) question: String,
    pub(super) about: About,
}

/// Reads a shortcut; `None` for those of others.
pub(super) fn read(payload: &str) -> Result<Option<Shortcut>, Unreadable> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        callback_id: String,
        trigger_id: String,
        channel: Id,
        message: Message,
    }
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    #[derive(Deserialize)]
    struct Message {
        ts: String,
        #[serde(default)]
        thread_ts: Option<String>,
        #[serde(default)]
        user: Option<String>,
        #[serde(default)]
        bot_id: Option<String>,
        #[serde(default)]
        text: String,
    }
    let Wire { callback_id, trigger_id, channel, message } = serde_json::from_str(payload)?;
    if callback_id != ASK {
        return Ok(None);
    }
    let text: String = message.text.chars().take(TEXT_MAX).collect();
    let user = message.user.or(message.bot_id).unwrap_or_else(|| "unknown".to_owned());
    let root = message.thread_ts.unwrap_or_else(|| message.ts.clone());
    let about = About { channel: channel.id, ts: message.ts, root, user, text };
    Ok(Some(Shortcut { trigger: trigger_id, about: about.checked()? }))
}

/// Reads the question of a dialogue; `None` for those of others.
pub(super) fn submitted(payload: &str) -> Result<Option<Asked>, Unreadable> {
    #[derive(Deserialize)]
    struct Wire {
        user: Id,
        view: View,
    }
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    #[derive(Deserialize)]
    struct View {
        id: String,
        #[serde(default)]
        callback_id: String,
        #[serde(default)]
        private_metadata: String,
        #[serde(default)]
        state: Option<Box<RawValue>>,
    }
    let Wire { user, view } = serde_json::from_str(payload)?;
    if view.callback_id != ASK {
        return Ok(None);
    }
    if view.private_metadata.len() > DATA_BYTES || !ids::is_id(&view.id) || !ids::is_id(&user.id) {
        return Err(Unreadable::length());
    }
    let about: About = serde_json::from_str(&view.private_metadata)?;
    let state = parsed(view.state.as_deref())?;
    let question = state["values"][ASK][ASK]["value"].as_str().unwrap_or_default();
    let question = question.chars().take(QUESTION_MAX).collect();
    Ok(Some(Asked { user: user.id, view: view.id, question, about: about.checked()? }))
}

impl About {
    fn checked(self) -> Result<Self, Unreadable> {
        let timed = [&self.ts, &self.root].into_iter().all(|ts| ids::moment(ts).is_some());
        let fits = timed && ids::is_id(&self.channel) && ids::is_id(&self.user);
        if fits { Ok(self) } else { Err(Unreadable::id()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shortcut(message: &Value) -> Result<Option<Shortcut>, Unreadable> {
        let payload = json!({"type": "message_action", "callback_id": ASK, "trigger_id": "1.2.a",
            "channel": {"id": "C1"}, "message": message});
        read(&payload.to_string())
    }

    #[test]
    fn the_dialogue_carries_the_message_within_its_limit() {
        let long = "é\"".repeat(3_000);
        let message = json!({"ts": "1.5", "user": "U2", "text": long});
        let about = shortcut(&message).unwrap().unwrap().about;
        assert_eq!((about.root.as_str(), about.user.as_str()), ("1.5", "U2"));
        let data = serde_json::to_string(&about).unwrap();
        assert!(data.chars().count() <= 3_000, "{}", data.len());
        let payload = json!({"user": {"id": "U1"}, "view": {"id": "V1", "callback_id": ASK, "private_metadata": data,
            "state": {"values": {ASK: {ASK: {"value": "why?"}}}}}});
        let asked = submitted(&payload.to_string()).unwrap().unwrap();
        assert_eq!((asked.question.as_str(), asked.user.as_str(), asked.about), ("why?", "U1", about));
    }

    #[test]
    fn odd_shortcuts_are_unreadable_and_those_of_others_are_ignored() {
        assert!(shortcut(&json!({"ts": "later", "user": "U2"})).is_err());
        assert!(shortcut(&json!({"ts": "1.5", "user": "U 2"})).is_err());
        let other =
            json!({"callback_id": "other", "trigger_id": "1", "channel": {"id": "C1"}, "message": {"ts": "1.5"}});
        assert!(read(&other.to_string()).unwrap().is_none());
        assert!(submitted(r#"{"user": {"id": "U1"}, "view": {"id": "V1"}}"#).unwrap().is_none());
    }
}
