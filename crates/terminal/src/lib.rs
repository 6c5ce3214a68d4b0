//! The terminal's door: sessions that live in this process, the routes that reach them, and the client that speaks to those.
//!
//! A session is a place with one person in it. Clients read the events of its turns, which are numbered, so one that lost its
//! connection goes on where it was.

pub mod client;

pub mod commands;

pub mod routes;

pub mod sessions;

pub mod wire;

use domain::ids::Door;

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("terminal");
