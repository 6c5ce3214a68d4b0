//! staffai: an always-on assistant for public communities, built as a supervision tree of actors.
//!
//! The modules stand in reading order: the outer surface, the pure rooms, the actors, then the edges.

pub mod ports;

pub mod domain;

pub mod config;

pub mod actors;

pub mod telemetry;

pub mod discord;

pub mod llm;

pub mod render;

pub mod store;

pub mod terminal;

pub mod api;

pub mod playground;

pub mod app;
