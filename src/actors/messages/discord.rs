//! What others may tell the supervisor of the shards.

/// What the supervisor of the shards is told.
pub enum DiscordMsg {
    /// The identify queue knows how many shards there are; those that already live stay.
    StartShards(u32),
}
