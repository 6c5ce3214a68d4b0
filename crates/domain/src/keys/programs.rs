//! Keys of the data kept for client programs.

use std::time::Duration;

use crate::api_key::HOLDERS;
use crate::ids::Person;
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

/// Returns the prefixes of the responses of all keys of a person, and those of their lists; `None` for a person of
/// another door. The owner of responses is the name of the person, with the time of its key if it has one.
#[must_use]
pub fn responses_of(person: &Person) -> Option<([String; 2], [String; 2])> {
    let name = (person.door == HOLDERS).then(|| person.id.to_string())?;
    let owner = format!("{name}:");
    let [plain, of_key] = [part(&name), part(&owner)];
    let responses = [format!("{RESPONSE_PREFIX}{plain}:"), format!("{RESPONSE_PREFIX}{of_key}")];
    let lists = [format!("{RESPONSES_PREFIX}{plain}"), format!("{RESPONSES_PREFIX}{of_key}")];
    Some((responses, lists))
}
