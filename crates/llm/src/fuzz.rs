//! Targets of the fuzzer: what providers send. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;

use crate::body::parsed;
use crate::bounds::VALUES_MAX;
use crate::budget::Budget;
use crate::chat::Chat;
use crate::responses::Responses;
use crate::sse;
use crate::wire::Wire;
use ports::{Delta, DeltaSink};

/// Reads a stream that arrives in pieces of this many bytes. Returns the streamed text and, if the stream was complete,
/// the text of the answer.
fn streamed(wire: &dyn Wire, bytes: &[u8], piece: usize) -> (String, Option<String>) {
    let heard = Arc::new(parking_lot::Mutex::new(String::new()));
    let told = Arc::clone(&heard);
    let sink: DeltaSink = Arc::new(move |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            told.lock().push_str(text);
        }
    });
    let pieces: Vec<_> = bytes.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answer = runtime.block_on(sse::read(stream::iter(pieces), wire, &sink, &Budget::default()));
    let content = answer.and_then(|answer| answer.read(wire, &|| 0)).ok().map(|completion| completion.content);
    let heard = heard.lock().clone();
    (heard, content)
}

#[test]
fn chat_streams() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        assert_eq!(streamed(&Chat::default(), bytes, 4096), streamed(&Chat::default(), bytes, 7));
    });
}

#[test]
fn responses_streams() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        assert_eq!(streamed(&Responses::default(), bytes, 4096), streamed(&Responses::default(), bytes, 7));
    });
}

#[test]
fn whole_answers() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        drop(parsed(bytes, VALUES_MAX));
    });
}
