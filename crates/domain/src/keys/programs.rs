//! Keys of what is kept for programs.

use std::time::Duration;

use super::part;

/// How all responses begin that programs may go on from.
const RESPONSE_PREFIX: &str = "staffai:response:";

/// How all records begin of which responses a program has.
const RESPONSES_PREFIX: &str = "staffai:responses:";

/// The life of such a response, and of that record from its last change.
pub const RESPONSE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A response that the holder of a key may go on from. It lives for [`RESPONSE_TTL`].
#[must_use]
pub fn response(holder: &str, id: &str) -> String {
    format!("{RESPONSE_PREFIX}{}:{}", part(holder), part(id))
}

/// Which responses the holder of a key has. It lives for [`RESPONSE_TTL`] after each change.
#[must_use]
pub fn responses(holder: &str) -> String {
    format!("{RESPONSES_PREFIX}{}", part(holder))
}
