//! Parses permissions from gateway events. Only a few fields are read; malformed channels and roles are skipped.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serenity::model::Timestamp as WireTime;
use serenity::model::channel::ChannelType;
use serenity::model::id::{ChannelId, GuildId, RoleId, UserId};

use super::{CHANNELS_MAX, Change, Guild, Ourselves, Overwrite, ROLES_MAX, compact, put};
use crate::events::is_thread;
use domain::ids::Timestamp;

/// The most stored overwrites of one channel. Discord allows 1,000; only those of relevant bits count.
const OVERWRITES_MAX: usize = 300;

#[derive(Deserialize)]
struct WireGuild<'a> {
    id: GuildId,
    #[serde(default)]
    owner_id: Option<UserId>,
    #[serde(default, borrow)]
    roles: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    channels: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    members: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireRole {
    id: RoleId,
    #[serde(deserialize_with = "bits")]
    permissions: u64,
}

#[derive(Deserialize)]
struct WireChannel {
    id: ChannelId,
    #[serde(default)]
    guild_id: Option<GuildId>,
    #[serde(rename = "type")]
    kind: ChannelType,
    #[serde(default)]
    permission_overwrites: Vec<WireOverwrite>,
}

#[derive(Deserialize)]
struct WireOverwrite {
    /// The id of a role or an account; the two never share an id.
    id: RoleId,
    #[serde(deserialize_with = "bits")]
    allow: u64,
    #[serde(deserialize_with = "bits")]
    deny: u64,
}

#[derive(Deserialize)]
struct WireMember {
    #[serde(default)]
    guild_id: Option<GuildId>,
    user: HasId,
    #[serde(default)]
    roles: Vec<RoleId>,
    #[serde(default)]
    communication_disabled_until: Option<WireTime>,
}

#[derive(Deserialize)]
struct HasId {
    id: UserId,
}

/// Reads a permission number, which Discord writes as text because it exceeds the integers of some languages.
fn bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Reads a `GUILD_CREATE`; `me` is the bot's id.
///
/// # Errors
/// The JSON is not a guild.
pub fn guild(json: &str, me: UserId) -> Result<Change, serde_json::Error> {
    let wire: WireGuild<'_> = serde_json::from_str(json)?;
    let mut guild = Guild {
        id: wire.id.get(),
        owned: wire.owner_id == Some(me),
        ourselves: None,
        roles: Vec::new(),
        channels: Vec::new(),
    };
    for role in wire.roles.iter().filter_map(|raw| serde_json::from_str::<WireRole>(raw.get()).ok()) {
        put(&mut guild.roles, role.id.get(), compact(role.permissions), ROLES_MAX);
    }
    for channel in wire.channels.iter().filter_map(|raw| serde_json::from_str::<WireChannel>(raw.get()).ok()) {
        if channel.kind != ChannelType::Category {
            put(&mut guild.channels, channel.id.get(), channel.overwrites(), CHANNELS_MAX);
        }
    }
    guild.roles.shrink_to_fit();
    guild.channels.shrink_to_fit();
    let mut members = wire.members.iter().filter_map(|raw| serde_json::from_str::<WireMember>(raw.get()).ok());
    guild.ourselves = members.find(|member| member.user.id == me).map(WireMember::ourselves);
    Ok(Change::Guild(guild))
}

/// Reads a `GUILD_UPDATE`, which has neither channels nor members; `me` is the bot's id.
///
/// # Errors
/// The JSON is not a guild.
pub fn guild_update(json: &str, me: UserId) -> Result<Change, serde_json::Error> {
    guild(json, me).map(|change| match change {
        Change::Guild(guild) => Change::GuildUpdate(guild),
        other => other,
    })
}

/// Returns the change by an event of this kind, or `None` if it is irrelevant. `me` is the bot's id.
///
/// # Errors
/// The JSON does not match its kind.
pub fn change(kind: &str, json: &str, me: UserId) -> Result<Option<Change>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Gone {
        id: GuildId,
    }
    #[derive(Deserialize)]
    struct RoleEvent {
        guild_id: GuildId,
        role: WireRole,
    }
    #[derive(Deserialize)]
    struct RoleGone {
        guild_id: GuildId,
        role_id: RoleId,
    }
    Ok(match kind {
        "GUILD_DELETE" => Some(Change::GuildGone(serde_json::from_str::<Gone>(json)?.id.get())),
        "CHANNEL_CREATE" | "CHANNEL_UPDATE" => {
            let channel: WireChannel = serde_json::from_str(json)?;
            channel.guild_id.map(|guild| Change::Channel(guild.get(), channel.id.get(), channel.overwrites()))
        }
        "CHANNEL_DELETE" => {
            let channel: WireChannel = serde_json::from_str(json)?;
            channel.guild_id.map(|guild| Change::ChannelGone(guild.get(), channel.id.get()))
        }
        "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => {
            let RoleEvent { guild_id, role } = serde_json::from_str(json)?;
            Some(Change::Role(guild_id.get(), role.id.get(), compact(role.permissions)))
        }
        "GUILD_ROLE_DELETE" => {
            let RoleGone { guild_id, role_id } = serde_json::from_str(json)?;
            Some(Change::RoleGone(guild_id.get(), role_id.get()))
        }
        "GUILD_MEMBER_UPDATE" => {
            let member: WireMember = serde_json::from_str(json)?;
            let guild = member.guild_id.filter(|_| member.user.id == me);
            guild.map(|guild| Change::Ourselves(guild.get(), member.ourselves()))
        }
        _ => None,
    })
}

/// Reads a channel of this guild in the format of the request API.
///
/// # Errors
/// The JSON is not a channel, or it is a thread.
pub fn channel(json: &str, guild: u64) -> Result<Change, serde_json::Error> {
    let channel: WireChannel = serde_json::from_str(json)?;
    if is_thread(channel.kind) {
        return Err(serde::de::Error::custom("a thread is no channel"));
    }
    Ok(Change::Channel(guild, channel.id.get(), channel.overwrites()))
}

/// Reads the bot's membership in this guild in the format of the request API.
///
/// # Errors
/// The JSON is not a member.
pub fn ourselves(json: &str, guild: u64) -> Result<Change, serde_json::Error> {
    let member: WireMember = serde_json::from_str(json)?;
    Ok(Change::Ourselves(guild, member.ourselves()))
}

impl WireChannel {
    /// Returns the overwrites of relevant bits.
    fn overwrites(&self) -> Box<[Overwrite]> {
        let compact = |wire: &WireOverwrite| Overwrite {
            id: wire.id.get(),
            allow: compact(wire.allow),
            deny: compact(wire.deny),
        };
        let matter = |overwrite: &Overwrite| overwrite.allow | overwrite.deny != 0;
        self.permission_overwrites.iter().map(compact).filter(matter).take(OVERWRITES_MAX).collect()
    }
}

impl WireMember {
    fn ourselves(self) -> Ourselves {
        let until = self.communication_disabled_until.map_or(0, |until| until.unix_timestamp_nanos() / 1_000_000);
        Ourselves {
            id: self.user.id.get(),
            roles: self.roles.iter().map(|role| role.get()).take(ROLES_MAX).collect(),
            silenced_until: Timestamp(u64::try_from(until).unwrap_or(0)),
        }
    }
}
