//! Values that name things. Each is qualified by the door it came through, so that two platforms can never share an id.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use compact_str::CompactString;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a way in and out, such as `discord`. Lower case, without a colon.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Door(CompactString);

impl Door {
    /// A door known at compile time.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(CompactString::const_new(name))
    }

    /// The name as written in keys, labels and logs.
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

/// An id text that did not have the form `door:id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not of the form door:id")]
pub struct BadId(String);

/// Reads a value from its text where the text stands.
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
            /// The door it belongs to.
            pub door: Door,
            /// The platform's own id, as text. Up to 24 bytes, and so those of Discord, stand in place: a turn copies ids many times.
            pub id: CompactString,
        }

        impl $name {
            /// Joins a door and the platform's own id.
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
    /// Somebody who writes: a member, a bot, a webhook.
    Person
}
door_qualified! {
    /// Where something is said: a channel, a thread, a session.
    Place
}
door_qualified! {
    /// One posted message.
    MessageId
}
door_qualified! {
    /// One turn, named after the message that triggered it: the key for dedupe, reservation and nonce.
    TurnId
}

impl TurnId {
    /// The turn that a message triggers.
    #[must_use]
    pub fn of(message: &MessageId) -> Self {
        Self { door: message.door.clone(), id: message.id.clone() }
    }

    /// The message that triggered this turn.
    #[must_use]
    pub fn trigger(&self) -> MessageId {
        MessageId { door: self.door.clone(), id: self.id.clone() }
    }
}

/// A moment of wall-clock time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Seconds with a fraction, as the stored history writes them.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this era fit 52 bits")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Whole milliseconds, as logs, keys and timestamps write a duration; the largest number when there are more.
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
