//! Parts of every actor: supervisors, handles with their counts, bounded collections, pauses between tries.

pub(crate) mod blocking;
pub mod bounded_set;
pub mod handle;
pub(crate) mod reconnect;
pub mod roster;
pub(crate) mod shrink;
pub mod supervisor;
