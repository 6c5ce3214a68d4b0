//! Messages of the supervisor of the shards.

use crate::runtime::named::named;

/// The messages that the supervisor of the shards handles.
pub enum DiscordMsg {
    /// From the identify queue: starts this number of shards. Running shards are kept.
    StartShards(u32),
}

named!(DiscordMsg: StartShards);
