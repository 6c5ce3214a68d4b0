//! Keys of the data kept for client programs.

use std::time::Duration;

use crate::key_part::part;

/// The prefix of responses that programs may continue from.
pub(super) const RESPONSE_PREFIX: &str = "staffai:response:";

/// The prefix of the response lists of programs.
const RESPONSES_PREFIX: &str = "staffai:responses:";

/// The TTL of such a response, and of such a list from its last change.
pub const RESPONSE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the key of a response that the holder of a key may continue from. TTL: [`RESPONSE_TTL`].
#[must_use]
pub fn response(holder: &str, id: &str) -> String {
    format!("{RESPONSE_PREFIX}{}:{}", part(holder), part(id))
}

/// Returns the key of the response list of the holder of a key. TTL: [`RESPONSE_TTL`] from each change.
#[must_use]
pub fn responses(holder: &str) -> String {
    format!("{RESPONSES_PREFIX}{}", part(holder))
}
