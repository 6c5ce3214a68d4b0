//! The model edge: OpenAI-compatible chat completions behind [`crate::ports::Models`].
//!
//! `registry` reads which models there are, `client` asks one of them, `http` carries the request and names each failure,
//! `body` writes
//! it, `stream` reads an answer that comes in pieces and `merge` puts them together, `wire` reads whatever came back. Nothing here
//! retries a failure or reads the environment.

pub mod registry;

pub mod client;

pub mod http;

pub mod stream;

pub mod merge;

pub mod wire;

mod body;
