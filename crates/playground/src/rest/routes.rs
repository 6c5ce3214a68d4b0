//! The table of routes.

use axum::http::Method;

use crate::{
    guild::ids::{ChannelId, GuildId, MessageId, RoleId, UserId},
    limits::Bucket,
};

/// The name of the route that creates messages.
pub const CREATE_MESSAGE: &str = "POST /channels/{channel}/messages";

/// A request by its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The gateway's address.
    Gateway,
    /// The same with advice for bots.
    GatewayBot,
    Me,
    User(UserId),
    MyGuilds,
    OpenDirect,
    Application,
    Commands(Option<GuildId>),
    SetCommands(Option<GuildId>),
    /// The first answer to an interaction, by id and token.
    Callback(MessageId, u64),
    /// A further message.
    FollowUp(u64),
    /// Read an answer; the first one by default.
    GetAnswer(u64, Option<MessageId>),
    EditAnswer(u64, Option<MessageId>),
    DeleteAnswer(u64, Option<MessageId>),
    Guild(GuildId),
    GuildChannels(GuildId),
    GuildRoles(GuildId),
    GuildMembers(GuildId),
    GuildMember(GuildId, UserId),
    VoiceState(GuildId, UserId),
    /// Give a role (true) or remove it (false).
    SetRole(GuildId, UserId, RoleId, bool),
    Channel(ChannelId),
    CreateMessage(ChannelId),
    ListMessages(ChannelId),
    Message(ChannelId, MessageId),
    EditMessage(ChannelId, MessageId),
    DeleteMessage(ChannelId, MessageId),
    Typing(ChannelId),
    /// Open a thread, optionally from a message.
    OpenThread(ChannelId, Option<MessageId>),
    GuildThreads(GuildId),
    /// Add (true) or remove (false) the bot's own reaction; the emoji is in the path.
    React(ChannelId, MessageId, bool),
}

impl Call {
    /// True if the bot's token is required; interactions have their own.
    #[must_use]
    pub fn needs_token(self) -> bool {
        !matches!(
            self,
            Self::Gateway
                | Self::Callback(..)
                | Self::FollowUp(_)
                | Self::GetAnswer(..)
                | Self::EditAnswer(..)
                | Self::DeleteAnswer(..)
        )
    }
}

/// A request with a route.
#[derive(Clone, Debug)]
pub struct Route {
    /// The route's name: method and path with parameter names.
    pub name: &'static str,
    pub call: Call,
    /// The bucket it is charged to.
    pub bucket: Bucket,
    /// The channel or guild of the bucket, 0 for none.
    pub major: u64,
    /// The channel it is about.
    pub channel: Option<ChannelId>,
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum Lookup {
    Found(Route),
    /// The path is unknown.
    NoSuchPath,
    /// The path is known, but not with this method.
    NoSuchMethod,
}

/// Finds the route of a request.
#[must_use]
pub fn find(method: &Method, path: &str) -> Lookup {
    let Some(path) = path.strip_prefix("/api/v10/").or_else(|| path.strip_prefix("/api/v9/")) else {
        return Lookup::NoSuchPath;
    };
    let segments: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let known = row(&segments);
    if known.is_empty() {
        return Lookup::NoSuchPath;
    }
    let fits = |name: &str| name.split_once(' ').is_some_and(|(verb, _)| verb == method.as_str());
    let Some((name, call)) = known.into_iter().find(|(name, _)| fits(name)) else {
        return Lookup::NoSuchMethod;
    };
    let (bucket, major, channel) = charged(name, call);
    Lookup::Found(Route { name, call, bucket, major, channel })
}

fn row(segments: &[&str]) -> Vec<(&'static str, Call)> {
    match *segments {
        ["gateway"] => vec![("GET /gateway", Call::Gateway)],
        ["gateway", "bot"] => vec![("GET /gateway/bot", Call::GatewayBot)],
        ["users", "@me"] => vec![("GET /users/@me", Call::Me)],
        ["users", "@me", "guilds"] => vec![("GET /users/@me/guilds", Call::MyGuilds)],
        ["users", "@me", "channels"] => vec![("POST /users/@me/channels", Call::OpenDirect)],
        ["users", user] => vec![("GET /users/{user}", Call::User(UserId(id(user))))],
        ["oauth2", "applications", "@me"] => {
            vec![("GET /oauth2/applications/@me", Call::Application)]
        }
        ["applications", "@me"] => vec![("GET /applications/@me", Call::Application)],
        ["applications", _, "commands"] => vec![
            ("GET /applications/{application}/commands", Call::Commands(None)),
            ("PUT /applications/{application}/commands", Call::SetCommands(None)),
        ],
        ["applications", _, "guilds", guild, "commands"] => {
            let guild = Some(GuildId(id(guild)));
            vec![
                ("GET /applications/{application}/guilds/{guild}/commands", Call::Commands(guild)),
                ("PUT /applications/{application}/guilds/{guild}/commands", Call::SetCommands(guild)),
            ]
        }
        ["interactions", interaction, token, "callback"] => {
            let call = Call::Callback(MessageId(id(interaction)), number(token));
            vec![("POST /interactions/{interaction}/{token}/callback", call)]
        }
        ["webhooks", _, token] => vec![("POST /webhooks/{application}/{token}", Call::FollowUp(number(token)))],
        ["webhooks", _, token, "messages", message] => {
            let token = number(token);
            let message = (message != "@original").then(|| MessageId(id(message)));
            vec![
                ("GET /webhooks/{application}/{token}/messages/{message}", Call::GetAnswer(token, message)),
                ("PATCH /webhooks/{application}/{token}/messages/{message}", Call::EditAnswer(token, message)),
                ("DELETE /webhooks/{application}/{token}/messages/{message}", Call::DeleteAnswer(token, message)),
            ]
        }
        ["guilds", guild, ref rest @ ..] => guild_row(GuildId(id(guild)), rest),
        ["channels", channel, ref rest @ ..] => channel_row(ChannelId(id(channel)), rest),
        _ => Vec::new(),
    }
}

fn guild_row(guild: GuildId, rest: &[&str]) -> Vec<(&'static str, Call)> {
    match *rest {
        [] => vec![("GET /guilds/{guild}", Call::Guild(guild))],
        ["channels"] => vec![("GET /guilds/{guild}/channels", Call::GuildChannels(guild))],
        ["threads", "active"] => vec![("GET /guilds/{guild}/threads/active", Call::GuildThreads(guild))],
        ["roles"] => vec![("GET /guilds/{guild}/roles", Call::GuildRoles(guild))],
        ["members"] => vec![("GET /guilds/{guild}/members", Call::GuildMembers(guild))],
        ["members", user] => vec![("GET /guilds/{guild}/members/{user}", Call::GuildMember(guild, UserId(id(user))))],
        ["voice-states", user] => {
            vec![("GET /guilds/{guild}/voice-states/{user}", Call::VoiceState(guild, UserId(id(user))))]
        }
        ["members", user, "roles", role] => {
            let (user, role) = (UserId(id(user)), RoleId(id(role)));
            vec![
                ("PUT /guilds/{guild}/members/{user}/roles/{role}", Call::SetRole(guild, user, role, true)),
                ("DELETE /guilds/{guild}/members/{user}/roles/{role}", Call::SetRole(guild, user, role, false)),
            ]
        }
        _ => Vec::new(),
    }
}

fn channel_row(channel: ChannelId, rest: &[&str]) -> Vec<(&'static str, Call)> {
    match *rest {
        [] => vec![("GET /channels/{channel}", Call::Channel(channel))],
        ["typing"] => vec![("POST /channels/{channel}/typing", Call::Typing(channel))],
        ["messages"] => vec![
            (CREATE_MESSAGE, Call::CreateMessage(channel)),
            ("GET /channels/{channel}/messages", Call::ListMessages(channel)),
        ],
        ["messages", message] => {
            let message = MessageId(id(message));
            vec![
                ("GET /channels/{channel}/messages/{message}", Call::Message(channel, message)),
                ("PATCH /channels/{channel}/messages/{message}", Call::EditMessage(channel, message)),
                ("DELETE /channels/{channel}/messages/{message}", Call::DeleteMessage(channel, message)),
            ]
        }
        ["threads"] => vec![("POST /channels/{channel}/threads", Call::OpenThread(channel, None))],
        ["messages", message, "threads"] => {
            let call = Call::OpenThread(channel, Some(MessageId(id(message))));
            vec![("POST /channels/{channel}/messages/{message}/threads", call)]
        }
        ["messages", message, "reactions", _, "@me"] => {
            let message = MessageId(id(message));
            vec![
                (
                    "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me",
                    Call::React(channel, message, true),
                ),
                (
                    "DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me",
                    Call::React(channel, message, false),
                ),
            ]
        }
        _ => Vec::new(),
    }
}

/// Parses an id in a path. Malformed ones become 0, which no object has.
fn id(segment: &str) -> u64 {
    segment.parse().unwrap_or(0)
}

fn number(token: &str) -> u64 {
    u64::from_str_radix(token, 16).unwrap_or(0)
}

fn charged(name: &'static str, call: Call) -> (Bucket, u64, Option<ChannelId>) {
    let in_channel = |bucket, channel: ChannelId| (bucket, channel.0, Some(channel));
    match call {
        Call::CreateMessage(channel) | Call::EditMessage(channel, _) => in_channel(Bucket::Writes, channel),
        Call::ListMessages(channel) | Call::Message(channel, _) => in_channel(Bucket::Reads, channel),
        Call::DeleteMessage(channel, _) => in_channel(Bucket::Deletes, channel),
        Call::Typing(channel) => in_channel(Bucket::Typing, channel),
        Call::Channel(channel) | Call::React(channel, ..) | Call::OpenThread(channel, _) => {
            in_channel(Bucket::Other(name), channel)
        }
        Call::SetRole(guild, ..) => (Bucket::Roles, guild.0, None),
        Call::Guild(guild)
        | Call::GuildChannels(guild)
        | Call::GuildRoles(guild)
        | Call::GuildThreads(guild)
        | Call::GuildMembers(guild)
        | Call::VoiceState(guild, _)
        | Call::GuildMember(guild, _) => (Bucket::Other(name), guild.0, None),
        Call::Callback(..)
        | Call::FollowUp(_)
        | Call::GetAnswer(..)
        | Call::EditAnswer(..)
        | Call::DeleteAnswer(..) => (Bucket::Exempt, 0, None),
        Call::Gateway
        | Call::GatewayBot
        | Call::Me
        | Call::User(_)
        | Call::MyGuilds
        | Call::OpenDirect
        | Call::Application
        | Call::Commands(_)
        | Call::SetCommands(_) => (Bucket::Other(name), 0, None),
    }
}
