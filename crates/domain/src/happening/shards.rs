//! Events of the shards of a platform's gateway.

use std::time::Duration;

use crate::ids::Place;

/// A change of one shard.
#[derive(Debug, Clone, Copy)]
pub enum ShardChange<'a> {
    /// A session began.
    Ready {
        /// The number of shards.
        total: u32,
    },
    /// The session was resumed.
    Resumed,
    /// The connection ended, and another one follows.
    Closed {
        /// The reason.
        reason: &'a str,
        /// True if the stored session of an earlier process ended, which is expected after a longer break.
        outlived: bool,
        /// True if the next connection resumes the session.
        resumes: bool,
        /// The time until the next connection.
        again_in: Duration,
    },
    /// The platform refuses the bot permanently, for this reason.
    Refused(&'a str),
    /// Messages that the shard missed were read back.
    CaughtUp {
        /// The place of the messages.
        place: &'a Place,
        /// The number of messages, at least 1.
        messages: usize,
    },
    /// More messages were missed than are read back in one place; the older ones were not read.
    Exceeded {
        /// The place of the messages.
        place: &'a Place,
        /// The number of messages that were read.
        messages: usize,
    },
    /// Missed messages could not be read back; they are tried again later.
    Unread {
        /// The place of the messages.
        place: &'a Place,
        /// The reason.
        reason: &'a str,
    },
    /// Missed messages were given up.
    NotRead {
        /// The number of places.
        places: usize,
        /// The reason.
        reason: &'static str,
    },
}
