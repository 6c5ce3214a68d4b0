//! The terminal's door: sessions that live in this process, the routes that reach them, and the client that speaks to those.
//!
//! A session is a place with one person in it. What the bot posts there is kept for a while and told as a numbered stream of
//! events, so that a client that lost its connection goes on where it was.

pub mod client;

pub mod routes;

pub mod sessions;

use crate::domain::ids::Door;

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("terminal");
