//! The playground: a small local Discord, and a small local Slack.
//!
//! - [`service`] starts it and acts for its members. A bot with `DISCORD_API_URL` set to it communicates over real
//!   sockets as with Discord: `rest` implements version 10 of the REST interface, `gateway` the WebSocket one.
//! - Both use one state ([`guild`]), serialize it with `wire`, enforce Discord's rate limits with `limits`, and
//!   misbehave as [`faults`] says. [`chaos`] lets the page inject these faults, and break the bot's own actors.
//! - [`workspace`] is a small local Slack.
//! - [`neighbours`] finds model servers on this machine, on loopback only.
//! - [`setup`] tests and writes the settings of a first run, for the page.
//! - [`example_server`] is a small tool server that the bot starts like any other.
//!
//! Nothing here contacts Discord, reads the environment or writes to disk, and every collection is bounded.

pub mod bot_process;
pub mod change;
pub mod chaos;
pub mod demo_model;
pub mod example_server;
pub mod examples;
pub mod faults;
mod files;
mod gateway;
pub mod guild;
mod hub;
mod intents;
pub mod interactions;
pub mod limits;
mod line;
mod members;
pub mod neighbours;
pub mod page;
mod programs;
mod rest;
pub mod script;
pub mod service;
pub mod setup;
pub mod stats;
mod wire;
pub mod workspace;
mod world;
