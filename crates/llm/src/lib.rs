//! The model edge: configured models behind [`ports::Models`].
//!
//! `registry` reads the configured models; `client` requests completions over a model's `wire`. A wire is a seam:
//! `chat` (chat completions) and `responses` write requests, read answers and assemble streams; another wire would be a
//! module beside them, and `row_wire` holds the choice of a row. The modules below are independent of the wire: `http` transports
//! requests and parses responses once, within `bounds` and the memory `budget`; `sse` splits a stream into frames; `provider_error` classifies failures. This
//! crate does not retry failures and does not read the environment.

pub mod registry;

pub mod client;

mod wire;

mod row_wire;

mod chat;
mod responses;

mod embeddings;

mod arguments;
mod bounds;
mod budget;
mod lenient;
mod pictures;
mod texts;
mod usage;

mod hosting;

mod account;

mod body;
mod http;

mod sse;

mod provider_error;

#[cfg(test)]
mod fuzz;
