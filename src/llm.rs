//! The model edge: OpenAI-compatible chat completions behind [`crate::ports::Models`].
//!
//! `registry` reads which models there are, `client` asks one of them, `http` carries the request and names each failure,
//! `wire` reads whatever came back. Nothing here retries, logs, or reads the environment.

pub mod registry;

pub mod client;

pub mod http;

pub mod wire;
