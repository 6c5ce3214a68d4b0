//! Messages of the supervisor of the shards.

use crate::runtime::handle::Reply;
use crate::runtime::named::named;

/// The messages that the supervisor of the shards handles.
pub enum DiscordMsg {
    /// From the identify queue: starts this number of shards. Running shards are kept.
    StartShards(u32),
    /// From the app: the ranges of this process changed. The reply is sent when the shards of other ranges are stopped.
    Follow(Reply<()>),
}

named!(DiscordMsg: StartShards, Follow);
