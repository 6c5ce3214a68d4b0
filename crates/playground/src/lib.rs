//! The playground: a whole small Discord on this machine.
//!
//! [`service`] starts it and speaks for its members. A bot that is told `DISCORD_API_URL` talks to
//! it over real sockets exactly as it would to Discord: `rest` answers version 10 of the REST
//! interface, `gateway` the WebSocket one. Both look at one state ([`guild`]), are drawn as
//! JSON by `wire`, are held to Discord's budgets by `limits`, and misbehave when [`faults`] says so. [`chaos`] lets the page do
//! that, and break the bot's own actors.
//!
//! Model servers that run on this machine beside it are looked for by [`neighbours`], on loopback alone.
//!
//! For trying tools it brings a small tool server along ([`example_server`]), which the bot starts as it does any other.
//!
//! Nothing here ever contacts Discord, reads the environment or keeps anything on disk, and every
//! collection has a named bound.

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
pub mod stats;
mod wire;
mod world;
