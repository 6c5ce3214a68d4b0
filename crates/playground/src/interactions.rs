//! Interactions: members run commands and press buttons, the bot answers within three seconds and
//! may go on for a quarter of an hour.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    gateway::hub::Event,
    guild::ids::{ChannelId, GuildId, MessageId, UserId},
    service::Service,
    wire,
    world::World,
};

/// Time for the first answer, in milliseconds.
pub const FIRST_ANSWER_MS: u64 = 3_000;
/// Life of an interaction's token, in milliseconds.
pub const TOKEN_LIFETIME_MS: u64 = 15 * 60 * 1_000;
/// Interactions remembered; the oldest are forgotten first.
const REMEMBERED: usize = 1_000;
/// Commands of one guild, or of all of them.
const COMMANDS: usize = 110;
/// Guilds with commands of their own.
const SCOPES: usize = 1_024;
/// Multiplied with an id it makes a token that does not look like one.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a member did.
#[derive(Clone, Debug)]
pub enum Interact {
    /// Ran a command with these options, each as Discord sends it (`name`, `type`, `value`).
    Command(String, Vec<Value>),
    /// Types a command with these options so far; the one with `focused` is being typed.
    Typing(String, Vec<Value>),
    /// Pressed the button, or chose these values of the menu, with this `custom_id`.
    Component(MessageId, String, Vec<String>),
    /// Sent the form with this `custom_id`, its rows as Discord sends them.
    Form(String, Vec<Value>),
}

/// An interaction and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interaction {
    /// Its id.
    pub id: MessageId,
    /// Who began it.
    pub member: UserId,
    /// Where.
    pub channel: ChannelId,
    /// The command that was run.
    pub command: Option<String>,
    /// The message whose button was pressed.
    pub message: Option<MessageId>,
    /// The type of the first answer, as Discord numbers them; none so far.
    pub answer: Option<u64>,
    /// The first answer's data, where it is not a message: a form, or choices for what is typed.
    pub form: Option<String>,
    /// When it was begun, and when it was answered, in milliseconds since 1970.
    pub made_at: u64,
    /// When it was first answered, in milliseconds since 1970.
    pub answered_at: Option<u64>,
    /// The message that the first answer became.
    pub original: Option<MessageId>,
}

impl Interaction {
    /// The number in its token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.id.0.wrapping_mul(SPREAD)
    }
}

/// All interactions, and the commands by guild (or for all guilds).
#[derive(Debug, Default)]
pub struct Interactions {
    known: VecDeque<Interaction>,
    commands: BTreeMap<Option<GuildId>, Vec<Value>>,
}

impl Interactions {
    /// The interaction with this token.
    pub fn by_token(&mut self, token: u64) -> Option<&mut Interaction> {
        self.known.iter_mut().find(|known| known.token() == token)
    }

    /// The commands of a guild, or those for all.
    #[must_use]
    pub fn commands(&self, scope: Option<GuildId>) -> &[Value] {
        self.commands.get(&scope).map(Vec::as_slice).unwrap_or_default()
    }
}

impl World {
    /// Replaces commands. False when there are too many.
    pub fn set_commands(&mut self, scope: Option<GuildId>, commands: Vec<Map<String, Value>>) -> bool {
        let room = self.interactions.commands.len() < SCOPES || self.interactions.commands.contains_key(&scope);
        if commands.len() > COMMANDS || !room {
            return false;
        }
        let now = self.now();
        let bot = self.state.bot().id;
        let mut kept = Vec::with_capacity(commands.len());
        for mut command in commands {
            let id = self.state.snowflake(now).to_string();
            command.insert("id".to_owned(), json!(id));
            command.insert("version".to_owned(), json!(id));
            command.insert("application_id".to_owned(), json!(bot));
            command.entry("type").or_insert(json!(1));
            command.entry("description").or_insert(json!(""));
            command.entry("default_member_permissions").or_insert(Value::Null);
            command.entry("nsfw").or_insert(json!(false));
            if let Some(guild) = scope {
                command.insert("guild_id".to_owned(), json!(guild));
            }
            kept.push(Value::Object(command));
        }
        self.interactions.commands.insert(scope, kept);
        true
    }

    /// Begins an interaction and tells the bot. None when the channel does not exist.
    pub fn interact(&mut self, member: UserId, channel: ChannelId, interact_with: Interact) -> Option<MessageId> {
        let now = self.now();
        let mut event = self.interaction_event(member, channel)?;
        let interaction = Interaction {
            id: MessageId(self.state.snowflake(now)),
            member,
            channel,
            command: if let Interact::Command(name, _) = &interact_with { Some(name.clone()) } else { None },
            message: if let Interact::Component(message, ..) = &interact_with { Some(*message) } else { None },
            answer: None,
            form: None,
            made_at: now,
            answered_at: None,
            original: None,
        };
        event["id"] = json!(interaction.id);
        event["token"] = json!(format!("{:x}", interaction.token()));
        let guild = self.state.channel(channel)?.guild;
        match interact_with {
            Interact::Command(name, options) => {
                event["type"] = json!(2);
                event["data"] = self.command_data(guild, &name, &options);
            }
            Interact::Typing(name, options) => {
                event["type"] = json!(4);
                event["data"] = self.command_data(guild, &name, &options);
            }
            Interact::Component(message, custom_id, values) => {
                let source = self.state.message(channel, message)?;
                event["message"] = wire::message(&self.state, source);
                event["type"] = json!(3);
                let menu = !values.is_empty();
                event["data"] = json!({"custom_id": custom_id, "component_type": if menu { 3 } else { 2 }});
                if menu {
                    event["data"]["values"] = json!(values);
                }
            }
            Interact::Form(custom_id, rows) => {
                event["type"] = json!(5);
                event["data"] = json!({"custom_id": custom_id, "components": rows});
            }
        }
        let id = interaction.id;
        if self.interactions.known.len() == REMEMBERED {
            self.interactions.known.pop_front();
        }
        self.interactions.known.push_back(interaction);
        self.hub.publish(&Event { name: "INTERACTION_CREATE", guild, intent: 0, data: event, blank: None });
        Some(id)
    }

    fn interaction_event(&self, user: UserId, channel: ChannelId) -> Option<Value> {
        let channel = self.state.channel(channel)?;
        let member = self.state.member(channel.guild, user)?;
        let guild = channel.guild.and_then(|guild| self.state.guild(guild));
        let mut event = json!({
            "application_id": self.state.bot().id,
            "version": 1,
            "channel_id": channel.id,
            "channel": wire::channel(&self.state, channel),
            "app_permissions": "0",
            // A member's client speaks as their guild does.
            "locale": guild.map_or("en-US", |guild| guild.locale.as_str()),
            "entitlements": [],
            "authorizing_integration_owners": {},
            "context": u8::from(channel.guild.is_none()),
            "attachment_size_limit": 10 << 20,
        });
        if let Some(guild) = guild {
            event["guild_id"] = json!(guild.id);
            event["guild_locale"] = json!(guild.locale);
            event["guild"] = json!({"id": guild.id, "locale": guild.locale, "features": []});
            event["app_permissions"] = json!(guild.permissions(self.state.bot().id).to_string());
            event["authorizing_integration_owners"] = json!({"0": guild.id});
            event["member"] = wire::member(member);
            event["member"]["permissions"] = json!(guild.permissions(user).to_string());
        } else {
            event["user"] = wire::user(member);
        }
        Some(event)
    }

    fn command_data(&self, guild: Option<GuildId>, name: &str, options: &[Value]) -> Value {
        let known = self.interactions.commands(guild).iter().chain(self.interactions.commands(None));
        let id = known.into_iter().find(|command| command["name"] == name).map(|command| command["id"].clone());
        let (mut users, mut members) = (Map::new(), Map::new());
        // Six is a person; Discord sends along whom the number means.
        for option in options.iter().filter(|option| option["type"] == 6) {
            let person = option["value"].as_str().and_then(|id| id.parse().ok());
            if let Some(person) = person.and_then(|id| self.state.member(guild, id)) {
                users.insert(person.id.to_string(), wire::user(person));
                let mut member = wire::partial_member(person);
                member["permissions"] = json!("0");
                members.insert(person.id.to_string(), member);
            }
        }
        json!({
            "id": id.unwrap_or(json!("1")),
            "name": name,
            "type": 1,
            "options": options,
            "resolved": {"users": users, "members": members},
        })
    }
}

impl Service {
    /// A member runs a command, presses a button or sends a form. Returns the interaction's id;
    /// none when the channel, the member or the message does not exist.
    #[allow(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn interacts(&self, member: UserId, channel: ChannelId, interact_with: Interact) -> Option<MessageId> {
        self.core.world().interact(member, channel, interact_with)
    }

    /// How far an interaction has come.
    #[must_use]
    pub fn interaction(&self, id: MessageId) -> Option<Interaction> {
        self.core.world().interactions.known.iter().find(|known| known.id == id).cloned()
    }

    /// The commands the bot registered for a guild, or for all guilds.
    #[must_use]
    pub fn commands(&self, scope: Option<GuildId>) -> Vec<Value> {
        self.core.world().interactions.commands(scope).to_vec()
    }
}
