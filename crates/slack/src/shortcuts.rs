//! The message shortcut "ask about this message": a dialogue asks for the question, which the bot then posts in the
//! thread of the message in the name of the member, so that all readers of the thread see it.
//!
//! Sources: `docs.slack.dev/reference/interaction-payloads/shortcuts-interaction-payload`,
//! `docs.slack.dev/reference/interaction-payloads/view-interactions-payload`, `docs.slack.dev/reference/methods/views.open`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ids::{self, At};
use super::incoming_text::plain;
use super::marks::Mark;
use super::mrkdwn::TEXT_LIMIT;
use super::unreadable::Unreadable;
use super::web_api::{Arguments, Call, CallError};
use super::{Account, Slack};
use domain::ids::Person;
use domain::incoming::{Author, AuthorKind, Posted, Quoted, WantedModels};
use domain::outgoing::Piece;
use domain::quoted::Seen;

/// The name of the shortcut and its dialogue.
pub(super) const ASK: &str = "ask";
/// The longest text of the message that the dialogue carries, in characters: its data has at most 3,000.
const TEXT_MAX: usize = 1_200;
/// The longest question, in characters.
const QUESTION_MAX: usize = 2_000;
/// The longest data of a dialogue that is read, in bytes.
const DATA_BYTES: usize = 16 * 1024;

/// A shortcut that a member used on a message.
#[derive(Debug)]
pub(super) struct Shortcut {
    trigger: String,
    about: About,
}

/// The message of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    channel: String,
    ts: String,
    /// The timestamp of the first message of its thread.
    root: String,
    user: String,
    text: String,
}

/// A question about a message.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) user: String,
    /// The id of the dialogue.
    view: String,
    question: String,
    about: About,
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
        state: Value,
    }
    let Wire { user, view } = serde_json::from_str(payload)?;
    if view.callback_id != ASK {
        return Ok(None);
    }
    if view.private_metadata.len() > DATA_BYTES || !ids::is_id(&view.id) || !ids::is_id(&user.id) {
        return Err(Unreadable::length());
    }
    let about: About = serde_json::from_str(&view.private_metadata)?;
    let question = view.state["values"][ASK][ASK]["value"].as_str().unwrap_or_default();
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

#[derive(Deserialize)]
struct Nothing {}

impl Slack {
    /// Opens the dialogue of a shortcut. Slack accepts it for three seconds only.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn open_dialogue(&self, shortcut: &Shortcut) -> Result<(), CallError> {
        let text = |text: &str| json!({"type": "plain_text", "text": text});
        let input =
            json!({"type": "plain_text_input", "action_id": ASK, "multiline": true, "max_length": QUESTION_MAX});
        let view = json!({
            "type": "modal",
            "callback_id": ASK,
            "title": text("Ask about this message"),
            "submit": text("Ask"),
            "close": text("Cancel"),
            "private_metadata": serde_json::to_string(&shortcut.about).unwrap_or_default(),
            "blocks": [{"type": "input", "block_id": ASK, "label": text("Your question"), "element": input}],
        });
        let arguments: Arguments<'_> =
            vec![("trigger_id", shortcut.trigger.as_str().into()), ("view", view.to_string().into())];
        self.api.call::<Nothing>(Call::changes("views.open"), arguments).await.map(|Nothing {}| ())
    }

    /// Posts a question in the thread of its message, and returns it as a message of the member.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn ask(&self, asked: Asked, us: &Account) -> Result<Posted, CallError> {
        let Asked { user, view, question, about } = asked;
        let member = self.member(&user).await;
        let shown: String = format!("**@{} asks:** {question}", member.name).chars().take(TEXT_LIMIT).collect();
        let at = At { channel: &about.channel, thread: Some(&about.root) };
        // Slack sends a dialogue again if its acknowledgement is lost.
        let mark = Mark { nonce: format!("{ASK}-{view}"), answers: None };
        let id = self.say(at, &Piece::text(shown), &mark).await?;
        self.streams.note_author(&id, &user);
        let author = |user: &str| if user == us.user { Self::us(us) } else { ids::person(user) };
        let seen = Seen {
            author: author(&about.user),
            name: if about.user == us.user { us.name.clone() } else { self.member(&about.user).await.name },
            ours: about.user == us.user,
            text: plain(&about.text),
            answers: None,
            attachments: Vec::new(),
        };
        let person: Person = ids::person(&user);
        Ok(Posted {
            at: ids::posted(&id).ok().and_then(|(_, ts)| ids::moment(ts)).unwrap_or_default(),
            place: ids::thread(&about.channel, &about.root),
            parent: Some(ids::channel(&about.channel)),
            guild: (!about.channel.starts_with('D')).then(|| us.team.clone()),
            author: Author { person, name: member.name, roles: member.roles, joined: None, kind: AuthorKind::Member },
            text: question,
            mentions_us: true,
            reply_to: Some(Quoted { id: ids::message(&about.channel, &about.ts), seen: Some(seen) }),
            attachments: Vec::new(),
            locale: member.locale,
            may_answer: true,
            draw: None,
            tools: true,
            given: None,
            models: WantedModels::default(),
            lineage: None,
            id,
        })
    }
}

/// Returns the acknowledgement of a dialogue whose question could not be asked, with the reason.
pub(super) fn refusal(reason: &str) -> Value {
    json!({"response_action": "errors", "errors": {ASK: reason}})
}

#[cfg(test)]
mod tests {
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
