//! Serializes the state as Discord's JSON, for REST and for events.

use serde_json::{Value, json};

use super::guild::{
    Attachment, Channel, ChannelKind, Guild, Member, Message, Overwrite, Role, Who,
    ids::{GuildId, MessageId, UserId},
    state::State,
};

/// The time at which all members joined and the guilds were created.
const JOINED_AT: &str = "2021-01-01T00:00:00.000000+00:00";
/// Replies to replies are shown one level deep.
const REPLY_DEPTH: u8 = 1;

/// The limited variants of the application flags for privileged intents, as small bots have.
const FLAG_PRESENCE: u64 = 1 << 13;
const FLAG_MEMBERS: u64 = 1 << 15;
const FLAG_CONTENT: u64 = 1 << 19;

/// Formats a time in milliseconds since 1970.
#[must_use]
pub fn timestamp(ms: u64) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let moment = moment.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

#[must_use]
pub fn user(member: &Member) -> Value {
    json!({
        "id": member.id,
        "username": member.name.to_lowercase(),
        "global_name": if member.bot { Value::Null } else { json!(member.name) },
        "discriminator": if member.bot { "0001" } else { "0" },
        "avatar": null,
        "avatar_decoration_data": null,
        "banner": null,
        "accent_color": null,
        "bot": member.bot,
        "system": false,
        "public_flags": 0,
        "primary_guild": null,
        "collectibles": null,
    })
}

/// Returns the bot's own user object, as in `/users/@me` and READY.
#[must_use]
pub fn own_user(member: &Member) -> Value {
    let mut own = user(member);
    own["mfa_enabled"] = json!(true);
    own["verified"] = json!(true);
    own["email"] = Value::Null;
    own["flags"] = json!(0);
    own["locale"] = json!("en-US");
    own
}

/// Returns a member object without its user, as in messages.
#[must_use]
pub fn partial_member(member: &Member) -> Value {
    json!({
        "nick": null,
        "avatar": null,
        "banner": null,
        "roles": member.roles,
        "joined_at": JOINED_AT,
        "premium_since": null,
        "deaf": false,
        "mute": false,
        "flags": 0,
        "pending": false,
        "communication_disabled_until": null,
    })
}

/// Returns a complete member object.
#[must_use]
pub fn member(member: &Member) -> Value {
    let mut whole = partial_member(member);
    whole["user"] = user(member);
    whole
}

#[must_use]
pub fn role(role: &Role) -> Value {
    json!({
        "id": role.id,
        "name": role.name,
        "description": null,
        "color": role.color,
        "colors": {"primary_color": role.color, "secondary_color": null, "tertiary_color": null},
        "hoist": false,
        "icon": null,
        "unicode_emoji": null,
        "position": role.position,
        "permissions": role.permissions.to_string(),
        "managed": role.managed,
        "mentionable": false,
        "flags": 0,
    })
}

fn overwrite(overwrite: &Overwrite) -> Value {
    let (id, kind) = match overwrite.who {
        Who::Role(role) => (json!(role), 0),
        Who::User(user) => (json!(user), 1),
    };
    json!({"id": id, "type": kind, "allow": overwrite.allow.to_string(), "deny": overwrite.deny.to_string()})
}

#[must_use]
pub fn channel(state: &State, channel: &Channel) -> Value {
    let last = state.last_message(channel.id);
    match channel.kind {
        ChannelKind::Text => {
            let siblings = channel.guild.and_then(|guild| state.guild(guild)).map(|guild| guild.channels.as_slice());
            let position = siblings.unwrap_or_default().iter().position(|sibling| sibling.id == channel.id);
            json!({
                "id": channel.id,
                "type": 0,
                "guild_id": channel.guild,
                "name": channel.name,
                "position": position.unwrap_or(0),
                "permission_overwrites": channel.overwrites.iter().map(overwrite).collect::<Vec<_>>(),
                "topic": null,
                "nsfw": false,
                "last_message_id": last,
                "last_pin_timestamp": null,
                "rate_limit_per_user": 0,
                "parent_id": null,
                "flags": 0,
            })
        }
        ChannelKind::Thread => {
            let messages = state.public(channel.id).count();
            json!({
                "id": channel.id,
                "type": 11,
                "guild_id": channel.guild,
                "parent_id": channel.parent,
                "owner_id": channel.opener,
                "name": channel.name,
                "last_message_id": last,
                "last_pin_timestamp": null,
                "rate_limit_per_user": 0,
                "message_count": messages,
                "total_message_sent": messages,
                "member_count": 1,
                "thread_metadata": {
                    "archived": false,
                    "auto_archive_duration": 1_440,
                    "archive_timestamp": timestamp(MessageId(channel.id.0).made_at()),
                    "create_timestamp": timestamp(MessageId(channel.id.0).made_at()),
                    "locked": false,
                },
                "flags": 0,
            })
        }
        ChannelKind::Direct => {
            let recipient = channel.recipient.and_then(|user| state.member(None, user)).map(user);
            json!({
                "id": channel.id,
                "type": 1,
                "last_message_id": last,
                "last_pin_timestamp": null,
                "recipients": recipient.into_iter().collect::<Vec<_>>(),
                "flags": 0,
            })
        }
    }
}

/// Returns a guild object without the lists that only `GUILD_CREATE` has.
#[must_use]
pub fn guild(guild: &Guild) -> Value {
    let mut whole = json!({
        "id": guild.id,
        "name": guild.name,
        "owner_id": guild.owner,
        "region": "deprecated",
        "afk_timeout": 300,
        "widget_enabled": false,
        "verification_level": 1,
        "default_message_notifications": 1,
        "explicit_content_filter": 0,
        "roles": guild.roles.iter().map(role).collect::<Vec<_>>(),
        "emojis": [],
        "stickers": [],
        "features": [],
        "mfa_level": 0,
        "system_channel_flags": 0,
        "max_members": 500_000,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": guild.locale,
        "max_video_channel_users": 25,
        "max_stage_video_channel_users": 50,
        "nsfw": false,
        "nsfw_level": 0,
        "premium_progress_bar_enabled": false,
    });
    for field in EMPTY_GUILD_FIELDS {
        whole[field] = Value::Null;
    }
    whole
}

/// Guild fields that are always sent, but empty here.
const EMPTY_GUILD_FIELDS: [&str; 18] = [
    "icon",
    "icon_hash",
    "splash",
    "discovery_splash",
    "afk_channel_id",
    "widget_channel_id",
    "application_id",
    "system_channel_id",
    "rules_channel_id",
    "max_presences",
    "vanity_url_code",
    "description",
    "banner",
    "public_updates_channel_id",
    "safety_alerts_channel_id",
    "incidents_data",
    "home_header",
    "hub_type",
];

/// Returns the data of `GUILD_CREATE`.
#[must_use]
pub fn guild_create(state: &State, of: &Guild) -> Value {
    let mut whole = guild(of);
    whole["joined_at"] = json!(JOINED_AT);
    whole["large"] = json!(false);
    whole["unavailable"] = json!(false);
    whole["member_count"] = json!(of.members.len());
    whole["voice_states"] = json!([]);
    whole["members"] = of.members.iter().map(member).collect();
    let (threads, channels): (Vec<_>, Vec<_>) = of.channels.iter().partition(|one| one.kind == ChannelKind::Thread);
    whole["channels"] = channels.into_iter().map(|entry| channel(state, entry)).collect();
    whole["threads"] = threads.into_iter().map(|entry| channel(state, entry)).collect();
    whole["presences"] = json!([]);
    whole["stage_instances"] = json!([]);
    whole["guild_scheduled_events"] = json!([]);
    whole["soundboard_sounds"] = json!([]);
    whole
}

/// Returns the application object. `privileged` are the intents that it may use.
#[must_use]
pub fn application(state: &State, privileged: u64) -> Value {
    let bot = state.bot();
    let owner = state.guilds().first().and_then(|guild| state.member(Some(guild.id), guild.owner));
    json!({
        "id": bot.id,
        "name": bot.name,
        "icon": null,
        "description": "a bot in a playground",
        "summary": "",
        "type": null,
        "bot": user(bot),
        "bot_public": false,
        "bot_require_code_grant": false,
        "verify_key": "0".repeat(64),
        "flags": application_flags(privileged),
        "owner": owner.map(user),
        "team": null,
        "rpc_origins": [],
        "redirect_uris": [],
        "interactions_endpoint_url": null,
        "role_connections_verification_url": null,
        "tags": [],
        "install_params": null,
        "integration_types_config": {},
        "approximate_guild_count": state.guilds().len(),
        "approximate_user_install_count": 0,
    })
}

/// Returns the application's flags: its privileged intents.
#[must_use]
pub fn application_flags(privileged: u64) -> u64 {
    let flag = |intent: u32, flag: u64| {
        if privileged >> intent & 1 == 1 { flag } else { 0 }
    };
    flag(1, FLAG_MEMBERS) | flag(8, FLAG_PRESENCE) | flag(15, FLAG_CONTENT)
}

/// Returns a message object for REST.
#[must_use]
pub fn message(state: &State, of: &Message) -> Value {
    nested(state, of, REPLY_DEPTH)
}

/// Returns a message object for `MESSAGE_CREATE` and `MESSAGE_UPDATE`: with guild and members.
#[must_use]
pub fn message_event(state: &State, of: &Message) -> Value {
    let mut event = message(state, of);
    let Some(guild) = state.channel(of.channel).and_then(|channel| channel.guild) else {
        return event;
    };
    event["guild_id"] = json!(guild);
    event["member"] = state.member(Some(guild), of.author).map_or(Value::Null, partial_member);
    event["mentions"] = of.mentions.iter().filter_map(|user| mention(state, Some(guild), *user)).collect();
    event
}

fn mention(state: &State, guild: Option<GuildId>, id: UserId) -> Option<Value> {
    let known = state.member(guild, id)?;
    let mut mentioned = user(known);
    if guild.is_some() {
        mentioned["member"] = partial_member(known);
    }
    Some(mentioned)
}

fn nested(state: &State, of: &Message, depth: u8) -> Value {
    let guild = state.channel(of.channel).and_then(|channel| channel.guild);
    let author = state.member(guild, of.author).map_or_else(|| stranger(of), user);
    let mut shown = json!({
        "id": of.id,
        "channel_id": of.channel,
        "type": if of.reply_to.is_some() { 19 } else { 0 },
        "author": author,
        "content": of.content,
        "timestamp": timestamp(of.sent_at),
        "edited_timestamp": of.edited_at.map(timestamp),
        "tts": of.tts,
        "mention_everyone": of.mention_everyone,
        "mentions": of.mentions.iter().filter_map(|id| mention(state, None, *id)).collect::<Vec<_>>(),
        "mention_roles": of.mention_roles,
        "attachments": of.attachments.iter().map(|file| attachment(state, of, file)).collect::<Vec<_>>(),
        "embeds": of.embeds.iter().map(embed).collect::<Vec<_>>(),
        "components": of.components,
        "pinned": false,
        "flags": of.flags,
    });
    if let Some(nonce) = &of.nonce {
        shown["nonce"] = json!(nonce);
    }
    if let Some(original) = of.reply_to {
        shown["message_reference"] = reference(of, guild, original);
        if depth > 0 {
            let original = state.message(of.channel, original);
            shown["referenced_message"] = original.map_or(Value::Null, |original| nested(state, original, depth - 1));
        }
    }
    shown
}

fn reference(of: &Message, guild: Option<GuildId>, original: MessageId) -> Value {
    let mut reference = json!({"type": 0, "message_id": original, "channel_id": of.channel});
    if let Some(guild) = guild {
        reference["guild_id"] = json!(guild);
    }
    reference
}

fn embed(sent: &Value) -> Value {
    let mut shown = sent.clone();
    if shown.is_object() && shown["type"].is_null() {
        shown["type"] = json!("rich");
    }
    shown
}

fn attachment(state: &State, of: &Message, file: &Attachment) -> Value {
    let url = state.address_of(of.channel, file);
    let mut shown = json!({
        "id": file.id,
        "filename": file.filename,
        "content_type": file.content_type,
        "size": file.size,
        "url": url,
        "proxy_url": url,
    });
    if let Some(description) = &file.description {
        shown["description"] = json!(description);
    }
    shown
}

fn stranger(of: &Message) -> Value {
    user(&Member { id: of.author, name: of.author_name.clone(), roles: Vec::new(), bot: false })
}
