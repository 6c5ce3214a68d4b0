//! Interactions of the state: commands, buttons and forms.

use serde_json::{Map, Value, json};

use crate::guild::ids::{ChannelId, GuildId, MessageId, UserId};
use crate::hub::Event;
use crate::interactions::{Interact, Interaction};
use crate::wire;

use super::World;

impl World {
    /// Replaces commands. Returns false if there are too many.
    pub fn set_commands(&mut self, scope: Option<GuildId>, commands: Vec<Map<String, Value>>) -> bool {
        if !self.interactions.has_room(scope, commands.len()) {
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
        self.interactions.set_commands(scope, kept);
        true
    }

    /// Begins an interaction and sends it to the bot. Returns `None` if the channel does not exist.
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
        self.interactions.remember(interaction);
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
            // A member's client uses the guild's locale.
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
        // Type 6 is a user; Discord includes the user's data.
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
