//! Messages of the identify queue, sent by shards.

use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use ports::Shard;

/// The messages that the queue handles.
pub enum IdentifyQueueMsg {
    /// A shard requests permission to identify; the reply arrives when it is granted.
    Identify(Shard, Reply<bool>),
}

named!(IdentifyQueueMsg: Identify);
