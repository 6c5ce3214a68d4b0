//! Keys of restrictions: their ends are those of the Python bot.

use std::time::Duration;

use super::{UNNAMED_DOOR, legacy, part, whole};
use crate::ids::Person;

/// How all ends of restrictions begin, as the Python bot wrote them.
pub const RESTRICTED_PREFIX: &str = "restricted_until:";

/// How all marks begin of roles that are being given.
pub const RESTRICTING_PREFIX: &str = "staffai:restricting:";

/// The life of such a mark. A role that could not be given for so long is not given any more.
pub const RESTRICTING_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How all records begin of restrictions that only moderators end.
pub const ENDLESS_PREFIX: &str = "staffai:restricted:";

/// The life of such a record. Who left for so long comes back without the role.
pub const ENDLESS_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How all marks begin of restricted members who were told where they are answered.
pub const TOLD_PREFIX: &str = "staffai:told:";

/// The longest life of such a mark: a moderator's restriction has no end that could be known.
pub const TOLD_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// When the restriction of this person in this community ends, in seconds since the Unix epoch. It has no life: it goes with
/// the restriction.
#[must_use]
pub fn restricted_until(guild: &str, person: &Person) -> String {
    format!("{RESTRICTED_PREFIX}{}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// Whom a key found under [`RESTRICTED_PREFIX`] restricts.
#[must_use]
pub fn parse_restricted(key: &str) -> Option<(String, Person)> {
    let parts: Vec<&str> = key.strip_prefix(RESTRICTED_PREFIX)?.split(':').collect();
    match parts.as_slice() {
        [guild, person] => member(UNNAMED_DOOR.as_str(), guild, person),
        [_, guild, door, person] => member(door, guild, person),
        _ => None,
    }
}

/// Says that the role of this person in this community may not have been given yet. It lives for [`RESTRICTING_TTL`].
#[must_use]
pub fn restricting(guild: &str, person: &Person) -> String {
    format!("{RESTRICTING_PREFIX}{}:{}:{}", person.door, part(guild), part(&person.id))
}

/// Since when this person is restricted in this community without an end, in milliseconds since the Unix epoch. It lives for
/// [`ENDLESS_TTL`].
#[must_use]
pub fn endless(guild: &str, person: &Person) -> String {
    format!("{ENDLESS_PREFIX}{}:{}:{}", person.door, part(guild), part(&person.id))
}

/// Says that this restricted person was told so; the value is until when that counts, in milliseconds since the Unix epoch. It
/// lives as long, at most [`TOLD_TTL`].
#[must_use]
pub fn told(guild: &str, person: &Person) -> String {
    format!("{TOLD_PREFIX}{}:{}:{}", person.door, part(guild), part(&person.id))
}

/// Whom a key found under [`RESTRICTING_PREFIX`], [`TOLD_PREFIX`] or [`ENDLESS_PREFIX`] is about.
#[must_use]
pub fn parse_member(key: &str) -> Option<(String, Person)> {
    let rest =
        [RESTRICTING_PREFIX, TOLD_PREFIX, ENDLESS_PREFIX].into_iter().find_map(|prefix| key.strip_prefix(prefix))?;
    let mut parts = rest.split(':');
    let (door, guild, person) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() { None } else { member(door, guild, person) }
}

/// One person in one community, when all parts are there.
fn member(door: &str, guild: &str, person: &str) -> Option<(String, Person)> {
    let person: Person = format!("{door}:{}", whole(person)).parse().ok()?;
    (!guild.is_empty()).then(|| (whole(guild), person))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Door;

    const DISCORD: Door = Door::new("discord");
    const API: Door = Door::new("api");

    #[test]
    fn restrictions_keep_the_key_of_the_python_bot() {
        let ada = Person::new(DISCORD, "7");
        assert_eq!(restricted_until("5", &ada), "restricted_until:5:7");
        assert_eq!(parse_restricted("restricted_until:5:7"), Some(("5".to_owned(), ada.clone())));
        assert_eq!(told("5", &ada), "staffai:told:discord:5:7");
        let elsewhere = Person::new(API, "a:%3A");
        assert_eq!(restricted_until("t", &elsewhere), "restricted_until:api:t:api:a%3A%253A");
        for (guild, person) in [("5", ada), ("t:1", elsewhere)] {
            let member = Some((guild.to_owned(), person.clone()));
            assert_eq!(parse_restricted(&restricted_until(guild, &person)), member);
            assert_eq!(parse_member(&restricting(guild, &person)), member);
            assert_eq!(parse_member(&told(guild, &person)), member);
        }
        for bad in ["restricted_until:", "restricted_until:5", "restricted_until:1:2:3", "restricted_until:5:", "x:5:7"]
        {
            assert_eq!(parse_restricted(bad), None, "{bad}");
        }
        assert_eq!((parse_member("staffai:told:discord:5"), parse_member("staffai:told:a:b:c:d")), (None, None));
    }
}
