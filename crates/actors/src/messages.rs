//! The messages between actors, one file for each receiver, with the plain data they carry. This module depends on no
//! actor, so actors can send to each other without importing each other. An actor's own events are defined beside the
//! actor.

pub mod approvals;
pub mod clearance;
pub mod commands;
pub mod config_watcher;
pub mod conversation;
pub mod conversations;
pub mod deadline;
pub mod discord;
pub mod draft;
pub mod gateway;
pub mod identify_queue;
pub mod journal;
pub mod llm_dispatcher;
pub mod mcp;
pub mod outbox;
pub mod presence_scheduler;
pub mod rate_limiter;
pub mod receipt;
pub mod restriction_sweeper;
pub mod reusable_server;
pub mod root;
pub mod server_line;
pub mod summaries;
pub mod tool_cache;
pub mod tools;
pub mod voices;
