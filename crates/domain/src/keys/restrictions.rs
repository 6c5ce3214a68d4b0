//! Keys of restrictions. The end times are stored as the Python bot stored them.

use std::time::Duration;

use crate::ids::Person;
use crate::key_part::{UNNAMED_DOOR, legacy, part, whole};

/// The prefix of the end times of restrictions, as the Python bot wrote them.
pub const RESTRICTED_PREFIX: &str = "restricted_until:";

/// The prefix of the marks of pending role assignments.
pub const RESTRICTING_PREFIX: &str = "staffai:restricting:";

/// The TTL of such a mark. An assignment that fails for this long is abandoned.
pub const RESTRICTING_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The prefix of records of restrictions that only moderators end.
pub const ENDLESS_PREFIX: &str = "staffai:restricted:";

/// The TTL of such a record. A member who was away longer returns without the role.
pub const ENDLESS_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The prefix of the marks of restricted members who received the notice about where they get answers.
pub const TOLD_PREFIX: &str = "staffai:told:";

/// The latest changes of restrictions, for the other processes of a divided bot. One record, without expiry.
pub const CHANGES: &str = "staffai:restrictions";

/// The maximum TTL of such a mark, since the end of a moderator's restriction is unknown.
pub const TOLD_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the key of the end of this person's restriction in this community, in seconds since the Unix epoch. It has
/// no TTL: it is deleted with the restriction.
#[must_use]
pub fn restricted_until(guild: &str, person: &Person) -> String {
    format!("{RESTRICTED_PREFIX}{}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// Parses the community and the person from a key under [`RESTRICTED_PREFIX`].
#[must_use]
pub fn parse_restricted(key: &str) -> Option<(String, Person)> {
    let parts: Vec<&str> = key.strip_prefix(RESTRICTED_PREFIX)?.split(':').collect();
    match parts.as_slice() {
        [guild, person] => member(UNNAMED_DOOR.as_str(), guild, person),
        [_, guild, door, person] => member(door, guild, person),
        _ => None,
    }
}

/// Returns the key that marks this person's role in this community as possibly not yet assigned. TTL:
/// [`RESTRICTING_TTL`].
#[must_use]
pub fn restricting(guild: &str, person: &Person) -> String {
    format!("{RESTRICTING_PREFIX}{}:{}:{}", person.door, part(guild), part(&person.id))
}

/// Returns the key of the start of this person's endless restriction in this community, in milliseconds since the Unix
/// epoch. TTL: [`ENDLESS_TTL`].
#[must_use]
pub fn endless(guild: &str, person: &Person) -> String {
    format!("{ENDLESS_PREFIX}{}:{}:{}", person.door, part(guild), part(&person.id))
}

/// Returns the key that marks this restricted person as notified. The value is the time until which the mark counts, in
/// milliseconds since the Unix epoch; the TTL ends then, at most after [`TOLD_TTL`].
#[must_use]
pub fn told(guild: &str, person: &Person) -> String {
    format!("{TOLD_PREFIX}{}:{}:{}", person.door, part(guild), part(&person.id))
}

/// Parses the community and the person from a key under [`RESTRICTING_PREFIX`], [`TOLD_PREFIX`] or [`ENDLESS_PREFIX`].
#[must_use]
pub fn parse_member(key: &str) -> Option<(String, Person)> {
    let rest =
        [RESTRICTING_PREFIX, TOLD_PREFIX, ENDLESS_PREFIX].into_iter().find_map(|prefix| key.strip_prefix(prefix))?;
    let mut parts = rest.split(':');
    let (door, guild, person) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() { None } else { member(door, guild, person) }
}

/// Builds the community and the person, if all parts are present.
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
