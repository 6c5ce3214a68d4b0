//! staffai: an always-on assistant for public communities, built as a supervision tree of actors.
//!
//! The modules stand in reading order.

pub mod ports;

pub mod telemetry;

pub mod domain;

pub mod api;
