//! The supervision tree and its actors. Read `tree.rs` first, then follow a message: shard, gateway, journal,
//! `rate_limiter`, conversations, conversation, turn, outbox.
//!
//! The modules of this level are the rows of the tree, the parts that several of them share, and `turn`, the task that
//! produces one answer. `runtime`
//! starts, supervises and addresses actors. `services` is state that several actors share and that survives their
//! restarts. Actors report events to `observers`, and `observation` keeps them for operators: no decision depends on it.

pub mod messages;
pub mod observation;
pub mod observers;
pub mod runtime;
pub mod services;
pub mod tree;
pub mod wiring;

// Inbound.
pub mod discord;
pub mod door;
pub mod gateway;
pub mod identify_queue;
pub mod intake;
pub mod shard;
pub mod slack;
pub mod source;
pub mod timers;
mod unread;
pub mod voice;
pub mod voices;

// A turn, from acceptance to its answer.
pub mod conversation;
pub mod conversations;
mod desk;
pub mod journal;
pub mod llm_dispatcher;
pub mod model_permits;
pub mod outbox;
pub mod rate_limiter;
pub mod turn;

// Tools.
pub mod approvals;
pub mod mcp;
pub mod pending_gates;
pub mod providers;
pub mod tool_cache;
pub mod tools;

// Beside turns.
pub mod commands;
pub mod config_watcher;
pub mod listening;
pub mod ops;
pub mod presence_scheduler;
pub mod reporter;
pub mod restriction_sweeper;
pub mod summaries;

#[cfg(test)]
pub(crate) mod testing;
