//! The parts of keys: ids, escaped so that no two of them share a key.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::ids::Door;

/// The one door that keys of the Python bot omit, because that bot supported no other. It belongs to their format, like
/// their prefixes.
pub(crate) const UNNAMED_DOOR: Door = Door::new("discord");

/// Formats an id as a part of a key of the Python bot: bare at the omitted door, else qualified by the door.
pub(crate) fn legacy(door: &Door, id: &str) -> String {
    if *door == UNNAMED_DOOR { part(id).into_owned() } else { format!("{door}:{}", part(id)) }
}

/// Escapes an id that another id follows. At doors where clients choose ids, a colon could make two people share a key,
/// so it is written as `%3A`. Ids without colons and percent signs stay unchanged.
pub(crate) fn part(id: &str) -> Cow<'_, str> {
    if !id.contains([':', '%']) {
        return Cow::Borrowed(id);
    }
    let mut out = String::with_capacity(id.len());
    for c in id.chars() {
        match c {
            ':' | '%' => {
                let _ = write!(out, "%{:02X}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns the id that [`part`] escaped.
pub(crate) fn whole(part: &str) -> String {
    part.replace("%3A", ":").replace("%25", "%")
}
