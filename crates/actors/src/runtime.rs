//! Runtime of all actors: supervisors, handles with counters, bounded collections, and reconnect backoff. Read
//! `supervisor.rs` first (restarts, poison messages, watchdog), then `handle.rs` (addresses, mailboxes, refusals).

pub(crate) mod blocking;
pub mod bounded_set;
pub mod handle;
pub mod named;
pub(crate) mod reconnect;
pub mod roster;
pub(crate) mod shrink;
pub mod supervisor;
