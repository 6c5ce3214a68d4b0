//! Who is awake, who owns what, who is told. Read `tree.rs` first, then follow a message: shard, gateway, journal,
//! `rate_limiter`, conversations, conversation, turn, outbox.

pub mod tree;
pub mod wiring;

pub mod supervisor;

pub mod handle;
pub mod messages;

pub mod bounded_set;
pub mod busy;
pub mod receipt;
pub mod roster;

mod shrink;

pub mod board;

pub mod timeline;

pub mod turn_events;

pub mod running;

pub mod vitals;

pub mod door;

pub mod discord;
pub mod identify_queue;
pub mod shard;
pub mod source;

pub mod gateway;
pub mod intake;

pub mod interjections;

pub mod journal;

pub mod rate_limiter;

pub mod conversations;

pub mod conversation;

pub mod mcp;
pub mod server_line;
pub mod tool_cache;
pub mod toolbox;
pub mod tools;

pub mod turn;

pub mod forgotten;

pub mod draft;

mod restricted;
pub mod restriction_sweeper;

pub mod llm_dispatcher;

pub mod outbox;

pub mod ledger;
pub mod presence_scheduler;
pub mod reporter;

pub mod config_watcher;

pub mod commands;

pub mod ops;

#[cfg(test)]
mod testing;
