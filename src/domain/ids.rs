//! Values that name things. Each is qualified by the door it came through, so that two platforms can never share an id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a way in and out, such as `discord`. Lower case, without a colon.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Door(std::borrow::Cow<'static, str>);

impl Door {
    /// A door known at compile time.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(std::borrow::Cow::Borrowed(name))
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

macro_rules! door_qualified {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name {
            /// The door it belongs to.
            pub door: Door,
            /// The platform's own id, as text.
            pub id: String,
        }

        impl $name {
            /// Joins a door and the platform's own id.
            pub fn new(door: Door, id: impl Into<String>) -> Self {
                Self { door, id: id.into() }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}", self.door, self.id)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                match text.split_once(':') {
                    Some((door, id)) if !door.is_empty() && !id.is_empty() => Ok(Self {
                        door: Door(door.to_owned().into()),
                        id: id.to_owned(),
                    }),
                    _ => Err(BadId(text.to_owned())),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;

            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
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
