//! What others may tell the supervisor of the shards.

/// The messages that the supervisor of the shards handles.
pub enum DiscordMsg {
    /// The number of shards, from the identify queue; those that run already stay.
    StartShards(u32),
}
