//! Ids (snowflakes): 64-bit numbers that begin with their creation time.

use std::{fmt, num::ParseIntError, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Discord's epoch: 1 January 2015.
pub const EPOCH_MS: u64 = 1_420_070_400_000;

const PER_MILLISECOND: u64 = 1 << 22;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The number.
            pub u64,
        );

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

id!(
    /// A user or a bot.
    UserId
);
id!(
    /// A guild.
    GuildId
);
id!(
    /// A channel.
    ChannelId
);
id!(
    /// A role.
    RoleId
);
id!(
    /// A message, or anything else in a channel.
    MessageId
);

impl MessageId {
    /// Returns the creation time, in milliseconds since 1970.
    #[must_use]
    pub fn made_at(self) -> u64 {
        (self.0 >> 22) + EPOCH_MS
    }
}

/// Serializes a number as text, because JavaScript loses digits of large numbers.
///
/// # Errors
/// Those of the serializer.
pub fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Generates ids that always increase, even if the clock stops or goes back.
#[derive(Debug, Default)]
pub struct Snowflakes {
    last: u64,
}

impl Snowflakes {
    /// Returns the next id for the time `now`, in milliseconds since 1970.
    pub fn next(&mut self, now: u64) -> u64 {
        let first = now.saturating_sub(EPOCH_MS).saturating_mul(PER_MILLISECOND);
        self.last = first.max(self.last.saturating_add(1));
        self.last
    }

    /// Raises all further ids above this one.
    pub fn begin_above(&mut self, id: u64) {
        self.last = self.last.max(id);
    }
}
