//! The bot's permissions to answer, as far as the gateway reported them. Evaluated in Discord's documented order:
//! permissions of `@everyone`, of the bot's roles, then the channel's overwrites for `@everyone`, for the roles and for
//! the bot.
//!
//! Only the relevant bits are stored, so a guild takes some kilobytes. Unknown permissions count as granted: the post
//! itself then reveals a refusal.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::DOOR;
use super::threads::Threads;
use domain::ids::{Place, Timestamp};
use ports::AccessScope;

pub mod wire;

/// The most known guilds; a shard has at most 2,500. Further ones count as unknown.
const GUILDS_MAX: usize = 10_000;
/// The most known channels of a guild; Discord allows 500.
const CHANNELS_MAX: usize = 1_000;
/// The most known roles of a guild; Discord allows 250.
const ROLES_MAX: usize = 500;

/// The bit for seeing a channel.
const VIEW: u8 = 1;
/// The bit for writing in a channel.
const SEND: u8 = 1 << 1;
/// The bit for writing in the threads of a channel.
const SEND_IN_THREADS: u8 = 1 << 2;
/// The bit of administrators.
const ADMINISTRATOR: u8 = 1 << 3;

/// Discord's bits and the compact ones.
const BITS: [(u64, u8); 4] = [(1 << 10, VIEW), (1 << 11, SEND), (1 << 38, SEND_IN_THREADS), (1 << 3, ADMINISTRATOR)];

/// Returns the relevant bits.
fn compact(permissions: u64) -> u8 {
    BITS.iter().filter(|(theirs, _)| permissions & theirs != 0).fold(0, |bits, (_, ours)| bits | ours)
}

/// The known permissions in one guild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guild {
    id: u64,
    owned: bool,
    /// The bot's membership; `None` while unknown.
    ourselves: Option<Ourselves>,
    /// The permissions of each role, by id.
    roles: Vec<(u64, u8)>,
    /// The overwrites of each channel, by id.
    channels: Vec<(u64, Box<[Overwrite]>)>,
}

/// The bot's membership in a guild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ourselves {
    id: u64,
    roles: Box<[u64]>,
    /// The end of the bot's timeout; until then it may only read.
    silenced_until: Timestamp,
}

/// The permissions that a channel denies and grants to a role or an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwrite {
    id: u64,
    allow: u8,
    deny: u8,
}

/// A change of permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The bot received a guild with all of its permissions.
    Guild(Guild),
    /// The owner or the roles of a guild changed; its channels and the bot's membership stay.
    GuildUpdate(Guild),
    /// A guild was removed.
    GuildGone(u64),
    /// A channel was created or changed.
    Channel(u64, u64, Box<[Overwrite]>),
    /// A channel was removed.
    ChannelGone(u64, u64),
    /// A role was created or changed.
    Role(u64, u64, u8),
    /// A role was removed.
    RoleGone(u64, u64),
    /// The bot's membership changed.
    Ourselves(u64, Ourselves),
}

impl Change {
    /// Returns where the change may grant permissions. Returns `None` if it only removes them.
    pub(super) fn may_open(&self) -> Option<AccessScope> {
        match self {
            Self::Guild(Guild { id, .. })
            | Self::GuildUpdate(Guild { id, .. })
            | Self::Role(id, ..)
            | Self::RoleGone(id, _)
            | Self::Ourselves(id, _) => Some(AccessScope::Community(id.to_string())),
            Self::Channel(_, channel, _) => Some(AccessScope::Place(Place::new(DOOR, channel.to_string()))),
            Self::GuildGone(_) | Self::ChannelGone(..) => None,
        }
    }
}

/// The known permissions in all guilds.
#[derive(Debug, Default)]
pub struct Rights(Mutex<HashMap<u64, Guild>>);

impl Rights {
    /// Records a change.
    pub fn learn(&self, change: Change) {
        let mut guilds = self.0.lock();
        match change {
            Change::Guild(guild) => {
                if guilds.len() < GUILDS_MAX || guilds.contains_key(&guild.id) {
                    guilds.insert(guild.id, guild);
                }
            }
            Change::GuildUpdate(update) => {
                if let Some(guild) = guilds.get_mut(&update.id) {
                    guild.owned = update.owned;
                    guild.roles = update.roles;
                }
            }
            Change::GuildGone(id) => drop(guilds.remove(&id)),
            Change::Channel(guild, id, overwrites) => {
                if let Some(guild) = guilds.get_mut(&guild) {
                    put(&mut guild.channels, id, overwrites, CHANNELS_MAX);
                }
            }
            Change::ChannelGone(guild, id) => {
                if let Some(guild) = guilds.get_mut(&guild) {
                    guild.channels.retain(|(known, _)| *known != id);
                }
            }
            Change::Role(guild, id, bits) => {
                if let Some(guild) = guilds.get_mut(&guild) {
                    put(&mut guild.roles, id, bits, ROLES_MAX);
                }
            }
            Change::RoleGone(guild, id) => {
                if let Some(guild) = guilds.get_mut(&guild) {
                    guild.roles.retain(|(known, _)| *known != id);
                }
            }
            Change::Ourselves(guild, ourselves) => {
                if let Some(guild) = guilds.get_mut(&guild) {
                    guild.ourselves = Some(ourselves);
                }
            }
        }
    }

    /// True if a guild is known.
    #[must_use]
    pub fn knows(&self, guild: &str) -> bool {
        let guilds = self.0.lock();
        guild.parse().is_ok_and(|guild: u64| guilds.contains_key(&guild))
    }

    /// True if a place is a known channel of a guild; threads are none.
    #[must_use]
    pub fn knows_channel(&self, guild: &str, place: &Place) -> bool {
        let (Ok(guild), Ok(channel)) = (guild.parse::<u64>(), place.id.parse()) else { return false };
        self.0.lock().get(&guild).is_some_and(|guild| get(&guild.channels, channel).is_some())
    }

    /// Returns the id of the guild with this channel, as far as known. Searches the channels of all guilds.
    #[must_use]
    pub fn guild_of(&self, channel: &Place) -> Option<String> {
        let channel: u64 = channel.id.parse().ok()?;
        let guilds = self.0.lock();
        let guild = guilds.values().find(|guild| get(&guild.channels, channel).is_some())?;
        Some(guild.id.to_string())
    }

    /// True if the bot may answer in a place at a time, or if that is unknown. A thread is looked up by its channel.
    #[must_use]
    pub fn may_answer(&self, guild: Option<&str>, place: &Place, parent: Option<&Place>, at: Timestamp) -> bool {
        let number = |id: &str| id.parse::<u64>().ok();
        let (Some(guild), Some(channel)) = (guild.and_then(number), number(&parent.unwrap_or(place).id)) else {
            return true;
        };
        let guilds = self.0.lock();
        let allowed = guilds.get(&guild).and_then(|guild| guild.allows(channel, parent.is_some(), at));
        allowed.unwrap_or(true)
    }

    /// Returns those places of a guild where the bot may answer, as far as known. Messages elsewhere are ignored.
    pub(super) fn answerable(
        &self,
        guild: &str,
        mut places: Vec<(Place, Timestamp)>,
        threads: &Threads,
    ) -> Vec<(Place, Timestamp)> {
        // A timeout of the bot ends by itself, so it is ignored here.
        let later = Timestamp(u64::MAX);
        places.retain(|(place, _)| self.may_answer(Some(guild), place, threads.parent(place).as_ref(), later));
        places
    }
}

/// Puts a value into a list sorted by id, unless the list is full.
fn put<T>(list: &mut Vec<(u64, T)>, id: u64, value: T, most: usize) {
    match list.binary_search_by_key(&id, |(known, _)| *known) {
        Ok(at) => list[at].1 = value,
        Err(at) if list.len() < most => list.insert(at, (id, value)),
        Err(_) => {}
    }
}

fn get<T>(list: &[(u64, T)], id: u64) -> Option<&T> {
    list.binary_search_by_key(&id, |(known, _)| *known).ok().and_then(|at| list.get(at)).map(|(_, value)| value)
}

impl Guild {
    /// True if the bot may answer in a channel or in its threads; `None` if unknown.
    fn allows(&self, channel: u64, thread: bool, at: Timestamp) -> Option<bool> {
        if self.owned {
            return Some(true);
        }
        let Ourselves { id, roles, silenced_until } = self.ourselves.as_ref()?;
        // The role `@everyone` has the id of its guild.
        let everyone = *get(&self.roles, self.id)?;
        let mut may = roles.iter().filter_map(|role| get(&self.roles, *role)).fold(everyone, |may, role| may | role);
        if may & ADMINISTRATOR != 0 {
            return Some(true);
        }
        if *silenced_until > at {
            return Some(false);
        }
        let overwrites = get(&self.channels, channel)?;
        let change = |may: u8, deny: u8, allow: u8| (may & !deny) | allow;
        let of = |who: u64| overwrites.iter().find(|overwrite| overwrite.id == who);
        if let Some(everyone) = of(self.id) {
            may = change(may, everyone.deny, everyone.allow);
        }
        let (deny, allow) = roles
            .iter()
            .filter_map(|role| of(*role))
            .fold((0, 0), |(deny, allow), role| (deny | role.deny, allow | role.allow));
        may = change(may, deny, allow);
        if let Some(ours) = of(*id) {
            may = change(may, ours.deny, ours.allow);
        }
        let needed = VIEW | if thread { SEND_IN_THREADS } else { SEND };
        Some(may & needed == needed)
    }
}

#[cfg(test)]
mod tests;
