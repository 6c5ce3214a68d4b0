//! Targets of the fuzzer: frames of the gateway, and responses of the request API. `./test` runs them on their kept inputs and some random ones, `./test fuzz` searches
//! for new ones, guided by coverage.

use http::StatusCode;
use serenity::model::id::UserId;

use crate::frame::read;
use crate::prefilter::Filter;
use crate::rest::Rest;
use crate::testing::access;

/// The statuses of responses. The first byte of an input chooses one.
const STATUSES: [StatusCode; 5] = [
    StatusCode::OK,
    StatusCode::BAD_REQUEST,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::TOO_MANY_REQUESTS,
];

#[test]
fn gateway_frames() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        drop(read(&text, &Filter::new(UserId::new(1), &[], false)));
    });
}

#[test]
fn rest_bodies() {
    bolero::check!().with_iterations(64).with_max_len(4096).for_each(|bytes: &[u8]| {
        let Some((first, body)) = bytes.split_first() else { return };
        // The client keeps what it reads, so each input has a new one.
        let rest = Rest::new(&access("http://127.0.0.1:1")).unwrap();
        rest.read_as_any(STATUSES[usize::from(*first) % STATUSES.len()], body);
    });
}
