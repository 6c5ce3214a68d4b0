//! Pressed buttons of the bot's own messages and pages, shortcuts to the settings, and modals that members sent.
//!
//! Sources: `docs.slack.dev/reference/interaction-payloads/block_actions-payload` and
//! `shortcuts-interaction-payload`.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::bounded::at_most;
use super::commands::Run;
use super::ids;
use super::people::Profile;
use super::unreadable::Unreadable;
use super::views::{Submission, token};
use super::{Account, DOOR};
use domain::command::{Callback, CallbackToken, Caller};
use domain::gate::{Choice, Click, Clicker, GateId};
use domain::ids::{MessageId, Place};
use domain::incoming::Incoming;
use domain::preferences::dialogue::{Dialogue, DialogueStep, page_of};

/// The name of the message shortcut that opens the settings: Slack requires a unique name for each shortcut.
pub(super) const SETTINGS_AT_MESSAGE: &str = "settings:message";
/// The longest value of a button, in bytes; the bot's are shorter.
const VALUE_BYTES: usize = 255;

/// A pressed button. The data of the member is not known yet.
#[derive(Debug)]
pub(super) struct Press {
    subject: Subject,
    pub(super) user: String,
    pub(super) place: Place,
    /// Opens a modal, within three seconds.
    pub(super) trigger: String,
    /// The id of this press, and the address for the private answer, or the modal.
    callback: Callback,
}

/// The subject of a button or a modal.
#[derive(Debug)]
enum Subject {
    Gate(GateId, Choice),
    Settings(usize),
}

impl Subject {
    /// Reads the name of a button or a modal; `None` for others.
    fn named(name: &str) -> Option<Self> {
        let gate = || Choice::of_button(name).map(|(gate, choice)| Self::Gate(gate, choice));
        let page = if name == SETTINGS_AT_MESSAGE { Some(0) } else { page_of(name) };
        page.map(Self::Settings).or_else(gate)
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    callback_id: String,
    #[serde(default)]
    trigger_id: String,
    #[serde(default)]
    user: User,
    #[serde(default)]
    container: Container,
    /// The channel and the message of a message shortcut, which has no container.
    #[serde(default)]
    channel: Channel,
    #[serde(default)]
    message: Message,
    #[serde(default, deserialize_with = "at_most::<_, _, 1>")]
    actions: Vec<Action>,
    #[serde(default)]
    response_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    /// Empty in the app home, which belongs to no channel.
    channel_id: String,
    message_ts: String,
    thread_ts: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Channel {
    id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    ts: String,
    thread_ts: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Action {
    value: String,
    action_ts: String,
}

/// Reads the payload of an interaction; `None` if it is none of the bot.
pub(super) fn read(payload: &str) -> Result<Option<Press>, Unreadable> {
    let wire: Wire = serde_json::from_str(payload)?;
    let (name, pressed) = match (wire.kind.as_str(), wire.actions.first()) {
        ("block_actions", Some(action)) => (action.value.as_str(), action.action_ts.as_str()),
        ("shortcut" | "message_action", _) => (wire.callback_id.as_str(), ""),
        _ => return Ok(None),
    };
    let Some(subject) = Subject::named(name).filter(|_| name.len() <= VALUE_BYTES) else { return Ok(None) };
    let Container { channel_id, message_ts, thread_ts } = match wire.kind.as_str() {
        "message_action" => {
            Container { channel_id: wire.channel.id, message_ts: wire.message.ts, thread_ts: wire.message.thread_ts }
        }
        _ => wire.container,
    };
    // A global shortcut and the app home have no channel. Nothing is posted in the place of a user.
    let channel = if channel_id.is_empty() { &wire.user.id } else { &channel_id };
    let times = [Some(&message_ts).filter(|ts| !ts.is_empty()), thread_ts.as_ref()];
    let odd = !ids::is_id(&wire.user.id)
        || !ids::is_id(channel)
        || wire.trigger_id.len() > VALUE_BYTES
        || times.into_iter().flatten().any(|ts| ids::moment(ts).is_none());
    if odd {
        return Err(Unreadable::id());
    }
    let id = if ids::moment(pressed).is_some() { pressed } else { &wire.trigger_id };
    Ok(Some(Press {
        subject,
        place: thread_ts.as_deref().map_or_else(|| ids::channel(channel), |ts| ids::thread(channel, ts)),
        callback: Callback {
            id: MessageId::new(DOOR, format!("{channel}:{id}")),
            application: wire.user.id.clone(),
            token: CallbackToken::new(wire.response_url),
        },
        trigger: wire.trigger_id,
        user: wire.user.id,
    }))
}

impl Press {
    /// Returns the opening of the dialogue of the settings by a command; `None` for other commands.
    pub(super) fn of_command(run: &Run) -> Option<Self> {
        let (user, trigger, callback) = (run.user.clone(), run.trigger.clone(), run.callback.clone());
        let press = Self { subject: Subject::Settings(0), user, place: ids::channel(&run.channel), trigger, callback };
        run.opens_settings().then_some(press)
    }

    /// True if it opens a modal.
    pub(super) fn opens(&self) -> bool {
        matches!(self.subject, Subject::Settings(_) | Subject::Gate(_, Choice::Open))
    }

    /// Sets the modal that it opened.
    pub(super) fn opened(&mut self, modal: CallbackToken) {
        self.callback.token = modal;
    }

    /// Returns the step of this member.
    pub(super) fn step(self, member: Profile, us: &Account) -> Incoming {
        let Self { subject, user, place, callback, trigger: _ } = self;
        let caller = caller(&user, member);
        match subject {
            Subject::Gate(gate, choice) => decision(gate, choice, Map::new(), caller, place, callback),
            Subject::Settings(page) => dialogue(DialogueStep::Opened(page), caller, place, callback, us),
        }
    }
}

impl Submission {
    /// Returns the callback that answers it.
    pub(super) fn callback(&self) -> Callback {
        Callback {
            id: MessageId::new(DOOR, format!("{}:sent:{}", self.view, self.attempt)),
            application: self.user.clone(),
            token: token(&self.view, &self.place),
        }
    }

    /// Returns the step of this member; `None` if no form of the bot has its name.
    pub(super) fn step(self, member: Profile, us: &Account) -> Option<Incoming> {
        let (callback, caller) = (self.callback(), caller(&self.user, member));
        Some(match Subject::named(&self.name)? {
            Subject::Gate(gate, Choice::Once) => {
                decision(gate, Choice::Once, self.answers, caller, self.place, callback)
            }
            Subject::Gate(..) => return None,
            Subject::Settings(_) => dialogue(DialogueStep::Sent(self.answers), caller, self.place, callback, us),
        })
    }
}

fn caller(user: &str, member: Profile) -> Caller {
    let Profile { name, locale, roles, .. } = member;
    Caller { person: ids::person(user), name, roles, locale, operator: false }
}

fn decision(
    gate: GateId,
    choice: Choice,
    answers: Map<String, Value>,
    caller: Caller,
    place: Place,
    callback: Callback,
) -> Incoming {
    let by = Clicker::Member(caller);
    Incoming::Decision(Box::new(Click { gate, choice, answers, by, place: Some(place), callback: Some(callback) }))
}

fn dialogue(step: DialogueStep, caller: Caller, place: Place, callback: Callback, us: &Account) -> Incoming {
    let guild = (!ids::is_direct(&place.id)).then(|| us.team.clone());
    Incoming::Dialogue(Box::new(Dialogue { callback, caller, place, parent: None, guild, step }))
}
