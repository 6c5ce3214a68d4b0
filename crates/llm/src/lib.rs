//! The model edge: configured models behind [`ports::Models`].
//!
//! `registry` reads which models there are, `client` asks one of them over its `wire`. The wire of a provider is a seam: `chat`
//! (chat completions) writes requests, reads answers and puts streamed ones together; another one would stand beside it. Below
//! that nothing knows a wire: `http` carries the request and parses what comes back, once; `sse` cuts a stream into frames;
//! `complaint` names each failure. Nothing here retries a failure or reads the environment.

pub mod registry;

pub mod client;

mod wire;

mod chat;
mod embeddings;

mod account;

mod body;
mod http;

mod sse;

mod provider_error;
