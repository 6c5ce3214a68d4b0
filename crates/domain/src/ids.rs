//! Ids. Each is qualified by its door, so that ids of two platforms cannot collide.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use compact_str::CompactString;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a door, such as `discord`. Lower case, without a colon.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Door(CompactString);

impl Door {
    /// Creates a door whose name is known at compile time.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(CompactString::const_new(name))
    }

    /// Returns the door of this name; `None` for an empty name and for one that cannot stand before an id.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        (!name.is_empty() && !name.contains(':')).then(|| Self(name.into()))
    }

    /// Returns the name used in keys, labels and logs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a text that is not of the form `door:id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form door:id")]
pub struct BadId(String);

/// Parses a value from borrowed text.
struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err = BadId>> Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id of the form door:id")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! door_qualified {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            /// The door.
            pub door: Door,
            /// The platform's own id. Up to 24 bytes, enough for Discord, are stored inline: a turn copies ids often.
            pub id: CompactString,
        }

        impl $name {
            /// Combines a door and the platform's own id.
            pub fn new(door: Door, id: impl Into<CompactString>) -> Self {
                Self { door, id: id.into() }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}", self.door, self.id)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parsed(PhantomData))
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                match text.split_once(':') {
                    Some((door, id)) if !door.is_empty() && !id.is_empty() => Ok(Self {
                        door: Door(door.into()),
                        id: id.into(),
                    }),
                    _ => Err(BadId(text.to_owned())),
                }
            }
        }
    };
}

door_qualified! {
    /// An author: a member, a bot or a webhook.
    Person
}
door_qualified! {
    /// A channel, thread, direct message or session.
    Place
}
door_qualified! {
    /// One posted message.
    MessageId
}
door_qualified! {
    /// One turn, with the id of its triggering message: the key for deduplication, reservations and nonces.
    TurnId
}

impl TurnId {
    /// Returns the turn that a message triggers.
    #[must_use]
    pub fn of(message: &MessageId) -> Self {
        Self { door: message.door.clone(), id: message.id.clone() }
    }

    /// Returns the message that triggered this turn.
    #[must_use]
    pub fn trigger(&self) -> MessageId {
        MessageId { door: self.door.clone(), id: self.id.clone() }
    }
}

/// A wall-clock time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns fractional seconds, as in stored history.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this era fit 52 bits")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Returns the time since `earlier`; zero if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Returns whole milliseconds, as in logs, keys and timestamps. Saturates at `u64::MAX`.
#[must_use]
pub fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_their_text() {
        let place = Place::new(Door::new("discord"), "42");
        let text = serde_json::to_string(&place).unwrap();
        assert_eq!(text, "\"discord:42\"");
        assert_eq!(serde_json::from_str::<Place>(&text).unwrap(), place);
    }

    #[test]
    fn text_without_a_door_is_refused() {
        for bad in ["", "42", ":42", "discord:"] {
            assert_eq!(bad.parse::<Person>(), Err(BadId(bad.to_owned())));
        }
    }
}
