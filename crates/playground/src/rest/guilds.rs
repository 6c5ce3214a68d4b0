//! Users, guilds, members, roles and channels.

use serde_json::{Value, json};

use super::{
    RestRequest,
    answer::{ApiError, RestReply},
    body,
};
use crate::{
    guild::{
        ChannelKind, Guild,
        ids::{ChannelId, GuildId, RoleId, UserId},
        permissions as may,
    },
    wire,
    world::{Core, World},
};

type Outcome = Result<RestReply, ApiError>;

/// Maximum number of members per response.
const MEMBERS: usize = 1_000;
/// Maximum length of an audit reason, in characters.
const REASON: usize = 512;

/// Returns the bot's user.
pub fn me(world: &World) -> RestReply {
    RestReply::ok(wire::own_user(world.state.bot()))
}

/// Returns any user.
pub fn user(world: &World, id: UserId) -> Outcome {
    let known = world.state.member(None, id);
    known.map(|member| RestReply::ok(wire::user(member))).ok_or_else(|| ApiError::new(404, 10_013, "Unknown User"))
}

/// Returns the bot's guilds, in short form.
pub fn mine(world: &World) -> RestReply {
    let bot = world.state.bot().id;
    let brief = |guild: &Guild| {
        json!({
            "id": guild.id,
            "name": guild.name,
            "icon": null,
            "banner": null,
            "owner": guild.owner == bot,
            "permissions": guild.permissions(bot).to_string(),
            "features": [],
        })
    };
    RestReply::ok(world.state.guilds().iter().map(brief).collect())
}

/// Opens a direct message channel.
pub fn open_direct(world: &mut World, asked: &RestRequest) -> Outcome {
    let form = body::read(asked)?;
    let recipient = form.json.get("recipient_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let now = world.now();
    let open = recipient.and_then(|recipient| world.state.direct(recipient, now));
    let channel = open.ok_or_else(|| ApiError::new(400, 50_033, "Invalid Recipient(s)"))?;
    Ok(RestReply::ok(wire::channel(&world.state, &channel)))
}

/// Returns the bot's application.
pub fn application(core: &Core, world: &World) -> RestReply {
    RestReply::ok(wire::application(&world.state, core.privileged))
}

pub fn guild(world: &World, id: GuildId) -> Outcome {
    let guild = known(world, id)?;
    let mut shown = wire::guild(guild);
    shown["approximate_member_count"] = json!(guild.members.len());
    shown["approximate_presence_count"] = json!(guild.members.len());
    Ok(RestReply::ok(shown))
}

pub fn channels(world: &World, id: GuildId) -> Outcome {
    let channels = known(world, id)?.channels.iter().filter(|channel| channel.kind != ChannelKind::Thread);
    Ok(RestReply::ok(channels.map(|channel| wire::channel(&world.state, channel)).collect()))
}

pub fn threads(world: &World, id: GuildId) -> Outcome {
    let threads = known(world, id)?.channels.iter().filter(|channel| channel.kind == ChannelKind::Thread);
    let threads: Vec<Value> = threads.map(|thread| wire::channel(&world.state, thread)).collect();
    Ok(RestReply::ok(json!({"threads": threads, "members": []})))
}

pub fn roles(world: &World, id: GuildId) -> Outcome {
    Ok(RestReply::ok(known(world, id)?.roles.iter().map(wire::role).collect()))
}

/// Returns a guild's members by id, `limit` of them after the id `after`.
pub fn members(world: &World, id: GuildId, asked: &RestRequest) -> Outcome {
    let limit = match asked.parameter("limit").map(str::parse) {
        None => 1,
        Some(Ok(limit)) if (1..=MEMBERS).contains(&limit) => limit,
        Some(_) => {
            return Err(ApiError::field("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 1000."));
        }
    };
    let after = asked.parameter("after").and_then(|id| id.parse().ok()).unwrap_or(UserId(0));
    let mut members: Vec<_> = known(world, id)?.members.iter().filter(|member| member.id > after).collect();
    members.sort_by_key(|member| member.id);
    Ok(RestReply::ok(members.into_iter().take(limit).map(wire::member).collect()))
}

/// Returns the voice channel of a member.
pub fn voice_state(world: &World, guild: GuildId, user: UserId) -> Outcome {
    let channel = world.voice.channels.get(&user);
    let channel = channel.filter(|channel| world.state.channel(**channel).and_then(|one| one.guild) == Some(guild));
    let state =
        |channel: &ChannelId| json!({"guild_id": guild, "channel_id": channel, "user_id": user, "session_id": "s"});
    channel
        .map(|channel| RestReply::ok(state(channel)))
        .ok_or_else(|| ApiError::new(404, 10_065, "Unknown Voice State"))
}

pub fn member(world: &World, guild: GuildId, user: UserId) -> Outcome {
    let member = known(world, guild)?.members.iter().find(|member| member.id == user);
    member.map(|member| RestReply::ok(wire::member(member))).ok_or_else(ApiError::unknown_member)
}

/// Gives or removes a role. The bot needs the permission, and a rank above the role.
pub fn set_role(
    world: &mut World,
    id: GuildId,
    user: UserId,
    role: RoleId,
    held: bool,
    asked: &RestRequest,
) -> Outcome {
    let bot = world.state.bot().id;
    let guild = known(world, id)?;
    let found = guild.roles.iter().find(|known| known.id == role);
    let found = found.ok_or_else(|| ApiError::new(404, 10_011, "Unknown Role"))?;
    let own = found.managed || role.0 == id.0;
    if own || guild.permissions(bot) & may::MANAGE_ROLES == 0 || guild.rank(bot) <= found.position {
        return Err(ApiError::missing_permissions());
    }
    let reason = asked.headers.get("x-audit-log-reason").and_then(|reason| reason.to_str().ok());
    let reason = reason.map(|reason| body::percent_decoded(reason).chars().take(REASON).collect());
    if world.set_role(id, user, role, held, reason) {
        Ok(RestReply::nothing())
    } else {
        Err(ApiError::unknown_member())
    }
}

pub fn channel(world: &World, id: ChannelId) -> Outcome {
    let channel = world.state.channel(id).ok_or_else(ApiError::unknown_channel)?;
    if world.script.forbidden.contains(&id) {
        return Err(ApiError::new(403, 50_001, "Missing Access"));
    }
    Ok(RestReply::ok(wire::channel(&world.state, channel)))
}

fn known(world: &World, id: GuildId) -> Result<&Guild, ApiError> {
    world.state.guild(id).ok_or_else(ApiError::unknown_guild)
}
