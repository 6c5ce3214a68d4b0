//! Discord's interactions turned into neutral facts: a command that a member ran, or types, and a button of ours that they pressed.
//! Menus, forms and foreign buttons are commands without a name: whoever used one is told that we do not know it.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serenity::model::id::{ChannelId, GuildId, MessageId as WireMessageId, RoleId, UserId};

use super::events::{self, WireUser};
use domain::command::{Callback, CallbackToken, Caller, Command, Typing};
use domain::gate::{Choice, Click, Clicker};
use domain::ids::Person;

/// The most options of one command that are looked at.
const OPTIONS_MAX: usize = 25;
/// A member ran a command.
const COMMAND: u8 = 2;
/// A member pressed something below a message.
const COMPONENT: u8 = 3;
/// A member types a command.
const AUTOCOMPLETE: u8 = 4;
/// A member sent a form.
const FORM: u8 = 5;
/// What they pressed is a button.
const BUTTON: u8 = 2;

/// An interaction with a meaning for us.
#[derive(Debug)]
pub enum Interaction {
    /// Ran a command.
    Command(Box<Command>),
    /// Types one.
    Typing(Box<Typing>),
    /// Decided about a call that waits.
    Decision(Box<Click>),
}

/// An interaction of the gateway. None for kinds without a meaning for us.
///
/// # Errors
/// It is no interaction. The error names the field.
pub fn read(json: &str) -> Result<Option<Interaction>, serde_json::Error> {
    let wire: Wire = serde_json::from_str(json)?;
    if wire.kind == COMPONENT {
        let pressed: Pressed = serde_json::from_value(wire.data.clone())?;
        let click = wire.click(&pressed).map(|click| Interaction::Decision(Box::new(click)));
        return Ok(click.or_else(|| wire.unknown()));
    }
    if wire.kind == FORM {
        return Ok(wire.unknown());
    }
    if !matches!(wire.kind, COMMAND | AUTOCOMPLETE) {
        return Ok(None);
    }
    let data: Data = serde_json::from_value(wire.data.clone())?;
    let options: Vec<WireOption> = data.options.into_iter().take(OPTIONS_MAX).collect();
    // Menus of messages and members have other types; we offer none.
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

/// An id of any kind, which becomes part of a path only as the number that it must be.
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

/// Whom options name.
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

/// What was pressed.
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

    /// Something that we never offered, as a command without a name.
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

    /// A press of a button that asks about a gate; whose it is, and where, the platform says.
    fn click(&self, pressed: &Pressed) -> Option<Click> {
        let (gate, choice) = Choice::of_button(&pressed.custom_id).filter(|_| pressed.component_type == BUTTON)?;
        let (place, by) = (events::place(self.channel()?), Clicker::Member(self.caller()?));
        Some(Click { gate, choice, by, place: Some(place), callback: Some(self.callback()) })
    }

    fn channel(&self) -> Option<ChannelId> {
        self.channel_id.or(self.channel.as_ref().map(|channel| channel.id))
    }

    /// The channel of a thread. Other channels name a category there.
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
