//! HTTP: operators' pages, the OpenAI- and Ollama-compatible doors, and webhooks.

pub mod api;
pub mod hooks;
pub mod model_api;
pub mod problem;
