//! Keys of the places with recent messages to the bot.

use std::time::Duration;

use crate::ids::{Door, Place};

/// The prefix of places with recent messages to the bot.
pub const ACTIVE_PREFIX: &str = "staffai:active:";

/// The TTL of such a place. Within it, a catch-up reads the place regardless of the newest message that the platform
/// reports.
pub const ACTIVE_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the prefix of the recently active places of a door.
#[must_use]
pub fn active_of(door: &Door) -> String {
    format!("{ACTIVE_PREFIX}{door}:")
}

/// Returns the key of a recently active place of a community; the value is the time. TTL: [`ACTIVE_TTL`].
#[must_use]
pub fn active(place: &Place, guild: &str) -> String {
    format!("{}{guild}:{}", active_of(&place.door), place.id)
}

/// Parses the community and the place from a key of [`active`].
#[must_use]
pub fn parse_active(key: &str, door: &Door) -> Option<(String, Place)> {
    let (guild, place) = key.strip_prefix(&active_of(door))?.split_once(':')?;
    Some((guild.to_owned(), Place::new(door.clone(), place)))
}
