//! Keys of the places where members spoke to us lately.

use std::time::Duration;

use crate::ids::{Door, Place};

/// How the places where members spoke to us lately begin.
pub const ACTIVE_PREFIX: &str = "staffai:active:";

/// The life of a place where a member spoke to us: so long a catch-up reads it whatever the platform says of its newest message.
pub const ACTIVE_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How the places of a door begin where members spoke to us lately.
#[must_use]
pub fn active_of(door: &Door) -> String {
    format!("{ACTIVE_PREFIX}{door}:")
}

/// A place of a community where a member spoke to us lately; the value is the moment. It lives for [`ACTIVE_TTL`].
#[must_use]
pub fn active(place: &Place, guild: &str) -> String {
    format!("{}{guild}:{}", active_of(&place.door), place.id)
}

/// The community and the place of a key of [`active`].
#[must_use]
pub fn parse_active(key: &str, door: &Door) -> Option<(String, Place)> {
    let (guild, place) = key.strip_prefix(&active_of(door))?.split_once(':')?;
    Some((guild.to_owned(), Place::new(door.clone(), place)))
}
