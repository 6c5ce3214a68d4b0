//! The terminal's door: sessions, their HTTP routes, and the command-line client.
//!
//! A session is a place with one member in it. Clients read the numbered events of its turns, so that a client can
//! resume after a lost connection.

pub mod client;

pub mod commands;

pub mod routes;

pub mod sessions;

pub mod wire;

use domain::ids::Door;

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("terminal");
