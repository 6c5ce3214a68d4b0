//! Whether our own permissions allow an answer, as far as the gateway told. By Discord's documented order: what everyone may,
//! what our roles add, then what the channel takes and gives for everyone, for our roles, and for ourselves.
//!
//! Only the few bits that matter are kept, so a community takes some kilobytes. What is not known counts as allowed: the post
//! itself will tell.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::DOOR;
use super::threads::Threads;
use domain::ids::{Place, Timestamp};

pub mod wire;

/// The most communities that are known at once; one shard has at most 2,500. Further ones count as unknown.
const GUILDS_MAX: usize = 10_000;
/// The most channels that are known of one community; Discord allows 500.
const CHANNELS_MAX: usize = 1_000;
/// The most roles that are known of one community; Discord allows 250.
const ROLES_MAX: usize = 500;

/// May see the channel.
const VIEW: u8 = 1;
/// May write in it.
const SEND: u8 = 1 << 1;
/// May write in its threads.
const SEND_IN_THREADS: u8 = 1 << 2;
/// May do everything.
const ADMINISTRATOR: u8 = 1 << 3;

/// Discord's bits, and ours.
const BITS: [(u64, u8); 4] = [(1 << 10, VIEW), (1 << 11, SEND), (1 << 38, SEND_IN_THREADS), (1 << 3, ADMINISTRATOR)];

/// The bits that matter.
fn compact(permissions: u64) -> u8 {
    BITS.iter().filter(|(theirs, _)| permissions & theirs != 0).fold(0, |bits, (_, ours)| bits | ours)
}

/// What is known of one community.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guild {
    id: u64,
    /// We own it.
    owned: bool,
    /// We as a member of it; none while that is unknown.
    ourselves: Option<Ourselves>,
    /// What each role allows, by id.
    roles: Vec<(u64, u8)>,
    /// What each channel changes, by id.
    channels: Vec<(u64, Box<[Overwrite]>)>,
}

/// We as a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ourselves {
    id: u64,
    roles: Box<[u64]>,
    /// We may only read until then.
    silenced_until: Timestamp,
}

/// What a channel takes and gives for a role or a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwrite {
    id: u64,
    allow: u8,
    deny: u8,
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A community came, with everything about it.
    Guild(Guild),
    /// The owner or the roles of a community changed; its channels and what we are there stay.
    GuildUpdate(Guild),
    /// A community went.
    GuildGone(u64),
    /// A channel of a community came or changed.
    Channel(u64, u64, Box<[Overwrite]>),
    /// A channel of a community went.
    ChannelGone(u64, u64),
    /// A role of a community came or changed.
    Role(u64, u64, u8),
    /// A role of a community went.
    RoleGone(u64, u64),
    /// We changed in a community.
    Ourselves(u64, Ourselves),
}

impl Change {
    /// Where something may be allowed after it that was not before: in one place, or (inner none) anywhere; none when it only takes.
    #[expect(clippy::option_option, reason = "nothing, everywhere and one place are three answers")]
    pub(super) fn may_open(&self) -> Option<Option<Place>> {
        match self {
            Self::Guild(_) | Self::GuildUpdate(_) | Self::Role(..) | Self::RoleGone(..) | Self::Ourselves(..) => {
                Some(None)
            }
            Self::Channel(_, channel, _) => Some(Some(Place::new(DOOR, channel.to_string()))),
            Self::GuildGone(_) | Self::ChannelGone(..) => None,
        }
    }
}

/// What is known of all communities.
#[derive(Debug, Default)]
pub struct Rights(Mutex<HashMap<u64, Guild>>);

impl Rights {
    /// Takes note of a change.
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

    /// Whether anything is known of a community.
    #[must_use]
    pub fn knows(&self, guild: &str) -> bool {
        let guilds = self.0.lock();
        guild.parse().is_ok_and(|guild: u64| guilds.contains_key(&guild))
    }

    /// Whether we may answer in a place at a moment; a thread is looked up by its channel. True when that is not known.
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

    /// Those of these places of a community where we may answer, as far as is known: what is said elsewhere is not for us.
    pub(super) fn answerable(
        &self,
        guild: &str,
        mut places: Vec<(Place, Timestamp)>,
        threads: &Threads,
    ) -> Vec<(Place, Timestamp)> {
        // A timeout of ours ends by itself, so it counts for nothing here.
        let later = Timestamp(u64::MAX);
        places.retain(|(place, _)| self.may_answer(Some(guild), place, threads.parent(place).as_ref(), later));
        places
    }
}

/// Puts a value into a list that is sorted by id, unless it is full.
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
    /// Whether we may answer in a channel or in its threads; none when that is not known.
    fn allows(&self, channel: u64, thread: bool, at: Timestamp) -> Option<bool> {
        if self.owned {
            return Some(true);
        }
        let Ourselves { id, roles, silenced_until } = self.ourselves.as_ref()?;
        // The role of everyone has the number of its community.
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
