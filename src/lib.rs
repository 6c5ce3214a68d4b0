//! staffai: an always-on assistant for public communities, built as a supervision tree of actors.
//!
//! The modules stand in reading order: the outer surface, the pure rooms, the actors, then the edges.
//!
//! | rooms | know | never know |
//! |---|---|---|
//! | [`domain`] | plain data and decisions; clock and dice are arguments | anything that waits, logs or has a wire |
//! | [`actors`] | `domain`, [`ports`], [`config`] | a wire type of Discord, a store or a model |
//! | edges: `discord`, `llm`, [`mcp`], [`tools`], [`render`], [`store`], [`terminal`], `chat_service`, `hooks`, `model_api`, `api`, [`playground`] | `domain`, `ports`, their own library, the connection of [`nats`], `http_client`, `problem` | each other, and the actors |
//! | [`config`], [`telemetry`] | `domain`, `ports`, the process around them | actors and edges |
//! | [`app`] | all of them; it makes the clock and the dice | |
//!
//! What holds everywhere (`tests/tidy.rs` and `clippy.toml` check what a machine can):
//!
//! - No await without a deadline; no queue, buffer, retry or loop without a named bound.
//! - A handler returns an error only to say "crash me"; expected failure is a value.
//! - The model decides nothing: identity, rights, mentions and limits are decided by code.
//! - No platform and no provider is named in a condition; they are implementations of a port or rows of configuration.
//! - Secrets have a type that cannot be printed; every sentence a member can read is in `domain/notice` or in `prompts/`.

pub mod app;
