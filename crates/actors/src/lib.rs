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

pub mod past;

pub mod timeline;

pub mod samples;

pub mod turn_events;

pub mod running;

pub mod vitals;

pub mod door;

pub mod discord;
pub mod identify_queue;
mod reconnect;
pub mod shard;
pub mod source;

pub mod gateway;
pub mod intake;

pub mod in_flight;
pub mod in_force;
pub mod interjections;
pub mod standings;
pub mod usable_tools;

pub mod journal;

pub mod rate_limiter;

pub mod conversations;

pub mod conversation;

mod allowances;
mod alone;
pub mod approvals;
pub mod audit;
mod blocking;

pub mod clean_calls;
pub mod daily;
pub mod deadline;
mod desk;
pub mod mcp;
pub mod prompt_sections;
pub mod providers;
pub mod timers;
pub mod tool_cache;

mod tool_use;

pub mod toolbox;
pub mod tools;

pub mod turn;

pub mod facts;
pub mod forgotten;

pub mod draft;

mod restricted;
pub mod restriction_sweeper;

pub mod llm_dispatcher;

pub mod outbox;

pub mod embeddings;
pub mod ledger;
pub mod presence_scheduler;
pub mod reporter;

pub mod config_watcher;

pub mod commands;

pub mod listening;
pub mod ops;

#[cfg(test)]
pub(crate) mod testing;
