//! Converts Discord's interactions to neutral data: a command that a member ran or is typing, or a pressed button of
//! the bot, or a form that such a button opened. Menus, foreign forms and foreign buttons become commands without a name; the member is told that the command is
//! unknown.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use serenity::model::id::{ChannelId, GuildId, MessageId as WireMessageId, RoleId, UserId};

use super::events::{self, WireUser};
use super::forms;
use domain::command::{Callback, CallbackToken, Caller, Command, Typing};
use domain::gate::{Choice, Click, Clicker};
use domain::ids::Person;
use domain::preferences::dialogue::{Dialogue, DialogueStep, page_of};

/// The most options read of one command.
const OPTIONS_MAX: usize = 25;
/// The type of an interaction in which a member ran a command.
const COMMAND: u8 = 2;
/// The type of an interaction in which a member used a component of a message.
const COMPONENT: u8 = 3;
/// The type of an interaction in which a member is typing a command.
const AUTOCOMPLETE: u8 = 4;
/// The type of an interaction in which a member sent a form.
const FORM: u8 = 5;
/// The type of a component that is a button.
const BUTTON: u8 = 2;

/// A relevant interaction.
#[derive(Debug)]
pub enum Interaction {
    /// A command that a member ran.
    Command(Box<Command>),
    /// A command that a member is typing.
    Typing(Box<Typing>),
    /// A step of the dialogue of the settings.
    Dialogue(Box<Dialogue>),
    /// A decision about a parked call.
    Decision(Box<Click>),
}

/// Reads an interaction of the gateway. Returns `None` for irrelevant kinds.
///
/// # Errors
/// The JSON is not an interaction. The error names the field.
pub fn read(json: &str) -> Result<Option<Interaction>, serde_json::Error> {
    let wire: Wire = serde_json::from_str(json)?;
    if wire.kind == COMPONENT {
        let pressed: Pressed = serde_json::from_value(wire.data.clone())?;
        let click = wire.click(&pressed).map(|click| Interaction::Decision(Box::new(click)));
        let page = page_of(&pressed.custom_id).filter(|_| pressed.component_type == BUTTON);
        let opened = || wire.dialogue(DialogueStep::Opened(page?));
        return Ok(click.or_else(opened).or_else(|| wire.unknown()));
    }
    if wire.kind == FORM {
        let click = wire.filled_in().map(|click| Interaction::Decision(Box::new(click)));
        return Ok(click.or_else(|| wire.sent()).or_else(|| wire.unknown()));
    }
    if !matches!(wire.kind, COMMAND | AUTOCOMPLETE) {
        return Ok(None);
    }
    let data: Data = serde_json::from_value(wire.data.clone())?;
    let options: Vec<WireOption> = data.options.into_iter().take(OPTIONS_MAX).collect();
    // Menus of messages and members have other types; the bot offers none.
    if wire.kind == COMMAND && data.kind != chat_input() {
        return Ok(wire.unknown());
    }
    let (Some(channel), Some(caller)) = (wire.channel(), wire.caller()) else { return Ok(None) };
    let callback = wire.callback();
    if wire.kind == AUTOCOMPLETE {
        let focused = options.into_iter().find(|option| option.focused);
        return Ok(focused.map(|option| {
            let typed = option.text();
            let typing = Typing { callback, name: data.name, option: option.name, typed, caller };
            Interaction::Typing(Box::new(typing))
        }));
    }
    let options = options.into_iter().map(|option| (option.name.clone(), option.text())).collect();
    Ok(Some(Interaction::Command(Box::new(Command {
        callback,
        name: data.name,
        options,
        named: data.resolved.named(),
        caller,
        place: events::place(channel),
        parent: wire.parent().map(events::place),
        guild: wire.guild_id.map(|guild| guild.to_string()),
        at: events::time_of(wire.id),
    }))))
}

#[derive(Deserialize)]
struct Wire {
    id: WireMessageId,
    application_id: Number,
    #[serde(rename = "type")]
    kind: u8,
    token: String,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    guild_id: Option<GuildId>,
    #[serde(default)]
    channel_id: Option<ChannelId>,
    #[serde(default)]
    channel: Option<Channel>,
    #[serde(default)]
    member: Option<Member>,
    #[serde(default)]
    user: Option<WireUser>,
    #[serde(default)]
    locale: Option<String>,
}

/// An id of any kind, validated as a number before it becomes part of a path.
#[derive(Deserialize)]
#[serde(transparent)]
struct Number(serenity::model::id::ApplicationId);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Deserialize)]
struct Channel {
    id: ChannelId,
    #[serde(default, rename = "type")]
    kind: u8,
    #[serde(default)]
    parent_id: Option<ChannelId>,
}

#[derive(Deserialize)]
struct Member {
    #[serde(default)]
    user: Option<WireUser>,
    #[serde(default)]
    nick: Option<String>,
    #[serde(default)]
    roles: Vec<RoleId>,
}

/// The accounts that options name.
#[derive(Default, Deserialize)]
struct Resolved {
    #[serde(default)]
    members: HashMap<UserId, Member>,
}

impl Resolved {
    fn named(&self) -> Vec<(Person, Vec<String>)> {
        let roles = |member: &Member| member.roles.iter().map(ToString::to_string).collect();
        self.members.iter().take(OPTIONS_MAX).map(|(id, member)| (events::person(*id), roles(member))).collect()
    }
}

#[derive(Deserialize)]
struct Data {
    name: String,
    #[serde(default)]
    resolved: Resolved,
    #[serde(default = "chat_input", rename = "type")]
    kind: u8,
    #[serde(default)]
    options: Vec<WireOption>,
}

const fn chat_input() -> u8 {
    1
}

#[derive(Deserialize)]
struct Pressed {
    #[serde(default)]
    custom_id: String,
    #[serde(default)]
    component_type: u8,
}

#[derive(Deserialize)]
struct WireOption {
    name: String,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    focused: bool,
}

impl WireOption {
    fn text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }
}

impl Wire {
    fn callback(&self) -> Callback {
        Callback {
            id: events::message_id(self.id),
            application: self.application_id.to_string(),
            token: CallbackToken::new(self.token.clone()),
        }
    }

    /// Returns a command without a name, for an interaction that the bot never offered.
    fn unknown(&self) -> Option<Interaction> {
        Some(Interaction::Command(Box::new(Command {
            callback: self.callback(),
            name: String::new(),
            options: Vec::new(),
            named: Vec::new(),
            caller: self.caller()?,
            place: events::place(self.channel()?),
            parent: self.parent().map(events::place),
            guild: self.guild_id.map(|guild| guild.to_string()),
            at: events::time_of(self.id),
        })))
    }

    /// Returns a press of an approval button. Discord supplies the member and the place.
    fn click(&self, pressed: &Pressed) -> Option<Click> {
        let (gate, choice) = Choice::of_button(&pressed.custom_id).filter(|_| pressed.component_type == BUTTON)?;
        let (place, by) = (events::place(self.channel()?), Clicker::Member(self.caller()?));
        Some(Click { gate, choice, answers: Map::new(), by, place: Some(place), callback: Some(self.callback()) })
    }

    /// Returns the answers to the form of a question.
    fn filled_in(&self) -> Option<Click> {
        let name = self.data.get("custom_id").and_then(Value::as_str)?;
        let (gate, choice) = Choice::of_button(name).filter(|(_, choice)| *choice == Choice::Once)?;
        let (place, by) = (events::place(self.channel()?), Clicker::Member(self.caller()?));
        let answers = forms::answers(self.data.get("components").unwrap_or(&Value::Null));
        Some(Click { gate, choice, answers, by, place: Some(place), callback: Some(self.callback()) })
    }

    /// Returns the values that a page of the dialogue of the settings sent.
    fn sent(&self) -> Option<Interaction> {
        self.data.get("custom_id").and_then(Value::as_str).and_then(page_of)?;
        let sent = forms::answers(self.data.get("components").unwrap_or(&Value::Null));
        self.dialogue(DialogueStep::Sent(sent))
    }

    fn dialogue(&self, step: DialogueStep) -> Option<Interaction> {
        Some(Interaction::Dialogue(Box::new(Dialogue {
            callback: self.callback(),
            caller: self.caller()?,
            place: events::place(self.channel()?),
            parent: self.parent().map(events::place),
            guild: self.guild_id.map(|guild| guild.to_string()),
            step,
        })))
    }

    fn channel(&self) -> Option<ChannelId> {
        self.channel_id.or(self.channel.as_ref().map(|channel| channel.id))
    }

    /// Returns the channel of a thread. For other channels this field is a category.
    fn parent(&self) -> Option<ChannelId> {
        self.channel.as_ref().filter(|channel| matches!(channel.kind, 10..=12)).and_then(|channel| channel.parent_id)
    }

    fn caller(&self) -> Option<Caller> {
        let member = self.member.as_ref();
        let user = member.and_then(|member| member.user.as_ref()).or(self.user.as_ref())?;
        let nick = member.and_then(|member| member.nick.clone()).filter(|nick| !nick.is_empty());
        Some(Caller {
            person: events::person(user.id),
            name: nick.unwrap_or_else(|| user.name().to_owned()),
            roles: member.map(|member| member.roles.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            locale: self.locale.clone(),
            operator: false,
        })
    }
}

#[cfg(test)]
mod tests;
