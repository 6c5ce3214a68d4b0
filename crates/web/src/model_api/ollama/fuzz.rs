//! Targets of the fuzzer: bodies of requests. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use super::reading::{ChatRequest, GenerateRequest};

#[test]
fn ollama_chat_bodies() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        if let Ok(request) = serde_json::from_slice::<ChatRequest>(bytes) {
            drop(request.read());
        }
    });
}

#[test]
fn ollama_generate_bodies() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        if let Ok(request) = serde_json::from_slice::<GenerateRequest>(bytes) {
            drop(request.read());
        }
    });
}
