//! The initial guilds.

use super::{
    Channel, ChannelKind, Guild, Member, Role,
    ids::{ChannelId, GuildId, RoleId, UserId},
    permissions as may,
};

/// The first seeded id. It is in the past, so later ids are larger.
const BASE: u64 = 900_000_000_000_000_000;
/// Ids reserved per guild; a power of two, so that guilds are spread evenly over shards.
const STRIDE: u64 = 1 << 22;

/// The permissions of an ordinary member.
const MEMBER: u64 = may::VIEW_CHANNEL
    | may::SEND_MESSAGES
    | may::EMBED_LINKS
    | may::ATTACH_FILES
    | may::READ_HISTORY
    | may::CREATE_THREADS
    | may::SEND_IN_THREADS;
/// The additional permissions of a moderator.
const MODERATOR: u64 =
    MEMBER | may::MANAGE_MESSAGES | may::MENTION_EVERYONE | may::MANAGE_ROLES | may::MODERATE_MEMBERS;

/// The initial guilds and the bot's account.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The bot; it is added to every guild without it.
    pub bot: Member,
    /// The guilds.
    pub guilds: Vec<Guild>,
}

impl Default for Seed {
    fn default() -> Self {
        Self::harbour()
    }
}

impl Seed {
    /// Returns one guild, "Harbour", with Ada, Ben and Chloe (moderator and owner), the channels general, help and
    /// random, and the bot "staffai".
    #[must_use]
    pub fn harbour() -> Self {
        let bot = UserId(BASE + 1);
        let mut guild = guild(0, "Harbour", bot);
        guild.channels =
            ["general", "help", "random"].into_iter().zip(20..).map(|(name, n)| text(BASE + n, name)).collect();
        Self { bot: account(&guild, bot), guilds: vec![guild] }
    }

    /// Returns many guilds and channels for load tests: `guild-0`, `channel-0` and so on, each guild with the same
    /// three members. At most 1,000 guilds with 1,000 channels each.
    #[must_use]
    pub fn many(guilds: u32, channels: u32) -> Self {
        let bot = UserId(BASE + 1);
        let make = |number: u32| {
            let mut guild = guild(number, &format!("guild-{number}"), bot);
            let first = guild.id.0 + 1_000;
            let names = (0..channels.min(1_000)).map(|n| text(first + u64::from(n), &format!("channel-{n}")));
            guild.channels = names.collect();
            guild
        };
        let guilds: Vec<Guild> = (0..guilds.clamp(1, 1_000)).map(make).collect();
        Self { bot: account(&guilds[0], bot), guilds }
    }
}

fn guild(number: u32, name: &str, bot: UserId) -> Guild {
    let base = BASE + u64::from(number) * STRIDE;
    let id = GuildId(base + 10);
    let role = |n: u64, name: &str, permissions: u64, position: u16| Role {
        id: RoleId(base + n),
        name: name.to_owned(),
        permissions,
        position,
        color: 0,
        managed: false,
    };
    let moderator = Role { color: 0x002e_cc71, ..role(11, "moderator", MODERATOR, 2) };
    let restricted = Role { color: 0x0099_aab5, ..role(12, "restricted", 0, 1) };
    let own = Role { managed: true, ..role(13, "staffai", MODERATOR, 3) };
    let person = |n: u64, name: &str, roles: Vec<RoleId>| Member {
        id: UserId(BASE + n),
        name: name.to_owned(),
        roles,
        bot: false,
    };
    let chloe = person(4, "Chloe", vec![moderator.id]);
    Guild {
        id,
        name: name.to_owned(),
        locale: "en-US".to_owned(),
        owner: chloe.id,
        members: vec![
            person(2, "Ada", Vec::new()),
            person(3, "Ben", Vec::new()),
            chloe,
            Member { id: bot, name: "staffai".to_owned(), roles: vec![own.id], bot: true },
        ],
        roles: vec![role(10, "@everyone", MEMBER, 0), restricted, moderator, own],
        channels: Vec::new(),
    }
}

fn text(id: u64, name: &str) -> Channel {
    Channel {
        id: ChannelId(id),
        guild: None,
        name: name.to_owned(),
        kind: ChannelKind::Text,
        recipient: None,
        parent: None,
        opener: None,
        overwrites: Vec::new(),
    }
}

fn account(guild: &Guild, bot: UserId) -> Member {
    let known = guild.members.iter().find(|member| member.id == bot).cloned();
    known.unwrap_or(Member { id: bot, name: "staffai".to_owned(), roles: Vec::new(), bot: true })
}
