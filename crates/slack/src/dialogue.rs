//! The dialogue of the shortcut "ask about this message": opens it, and posts the question in the thread of the message
//! in the name of the member, so that all readers of the thread see it.
//!
//! Source: `docs.slack.dev/reference/methods/views.open`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::ids::{self, At};
use super::incoming_text::plain;
use super::marks::{Fate, Mark};
use super::mrkdwn::TEXT_LIMIT;
use super::shortcuts::{ASK, Asked, QUESTION_MAX, Shortcut};
use super::web_api::{Arguments, Call, CallError};
use super::{Account, Slack};
use domain::ids::Person;
use domain::incoming::{Author, AuthorKind, Posted, Quoted, WantedModels};
use domain::notice::workspace;
use domain::outgoing::Piece;
use domain::quoted::Seen;

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
            "title": text(workspace::ASK_TITLE),
            "submit": text(workspace::ASK_SUBMIT),
            "close": text(workspace::ASK_CLOSE),
            "private_metadata": serde_json::to_string(&shortcut.about).unwrap_or_default(),
            "blocks": [{"type": "input", "block_id": ASK, "label": text(workspace::ASK_QUESTION), "element": input}],
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
        let shown: String = workspace::asked(&member.name, &question).chars().take(TEXT_LIMIT).collect();
        let at = At { channel: &about.channel, thread: Some(&about.root) };
        // Slack sends a dialogue again if its acknowledgement is lost.
        let mark = Mark { nonce: format!("{ASK}-{view}"), answers: None };
        let id = match self.marks.fate(&mark.nonce) {
            Some(Fate::Stands(id)) => id,
            Some(Fate::Unknown(_)) | None => self.say(at, &Piece::text(shown), &mark).await?,
        };
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
            guild: (!ids::is_direct(&about.channel)).then(|| us.team.clone()),
            author: Author { person, name: member.name, roles: member.roles, joined: None, kind: AuthorKind::Member },
            text: question,
            mentions_us: true,
            reply_to: Some(Quoted { id: ids::message(&about.channel, &about.ts), seen: Some(seen) }),
            attachments: Vec::new(),
            locale: member.locale,
            may_answer: true,
            draw: None,
            tools: member.roles_known,
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
