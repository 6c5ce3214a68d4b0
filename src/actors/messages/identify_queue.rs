//! What shards ask the identify queue.

use crate::actors::handle::Reply;
use crate::ports::Shard;

/// What the queue is told and asked.
pub enum IdentifyQueueMsg {
    /// A shard wants to identify; the answer comes when it may.
    Identify(Shard, Reply<bool>),
}
