//! What shards ask the identify queue.

use crate::runtime::handle::Reply;
use ports::Shard;

/// The messages that the queue handles.
pub enum IdentifyQueueMsg {
    /// A shard asks to identify; the reply comes when it may.
    Identify(Shard, Reply<bool>),
}
