//! Who is awake, who owns what, who is told. Read `tree.rs` first, then follow a message: shard, gateway, journal,
//! `rate_limiter`, conversations, conversation, turn, outbox.

pub mod tree;
pub(crate) mod wiring;

pub(crate) mod supervisor;

pub(crate) mod handle;
pub(crate) mod messages;

pub(crate) mod bounded_set;
pub(crate) mod busy;
pub(crate) mod receipt;
pub(crate) mod roster;

mod shrink;

pub(crate) mod board;

pub(crate) mod past;

pub(crate) mod timeline;

pub(crate) mod samples;

pub(crate) mod turn_events;

pub(crate) mod running;

pub(crate) mod vitals;

pub(crate) mod door;

pub(crate) mod discord;
pub(crate) mod identify_queue;
mod reconnect;
pub(crate) mod shard;
pub(crate) mod source;

pub(crate) mod gateway;
pub(crate) mod intake;

pub(crate) mod in_flight;
pub(crate) mod in_force;
pub(crate) mod interjections;
pub(crate) mod standings;
pub(crate) mod usable_tools;

pub(crate) mod journal;

pub(crate) mod rate_limiter;

pub(crate) mod conversations;

pub(crate) mod conversation;

mod allowances;
mod alone;
pub(crate) mod approvals;
pub mod audit;
mod blocking;

pub(crate) mod clean_calls;
pub mod daily;
pub mod deadline;
mod desk;
pub(crate) mod mcp;
pub(crate) mod prompt_sections;
pub(crate) mod providers;
pub(crate) mod timers;
pub(crate) mod tool_cache;

mod tool_use;

pub(crate) mod toolbox;
pub(crate) mod tools;

pub(crate) mod turn;

pub mod facts;
pub(crate) mod forgotten;

pub(crate) mod draft;

mod restricted;
pub(crate) mod restriction_sweeper;

pub(crate) mod llm_dispatcher;

pub(crate) mod outbox;

pub(crate) mod embeddings;
pub mod ledger;
pub(crate) mod presence_scheduler;
pub(crate) mod reporter;

pub(crate) mod config_watcher;

pub(crate) mod commands;

pub(crate) mod listening;
pub(crate) mod ops;

#[cfg(test)]
pub(crate) mod testing;
