//! The responses kept for programs of a person, whose door is the API.

use super::CommandParts;
use super::erasing::is_old;
use super::kept::{LOOK_MAX, delete, whole};
use domain::ids::{Person, Timestamp};
use domain::keys::programs;
use ports::Row;

/// The responses of a person.
#[derive(Default)]
pub(super) struct Responses {
    /// The responses, by key, as stored.
    pub rows: Vec<Row>,
    /// The keys of their lists.
    pub lists: Vec<String>,
    /// True if some may be missing.
    pub partial: bool,
}

/// Finds the responses of a person.
pub(super) async fn of(parts: &CommandParts, person: &Person) -> Responses {
    let Some(([plain, of_keys], [list, lists])) = programs::responses_of(person) else { return Responses::default() };
    let prefixes = [plain.as_str(), &of_keys, &lists];
    let (found, complete) = whole(parts.basics.store.scan_many(&prefixes, LOOK_MAX, Some(person)).await);
    let [mut rows, more, listing] = found.try_into().unwrap_or_default();
    rows.extend(more);
    let lists = listing.into_iter().map(|(key, _)| key).chain([list]).collect();
    Responses { rows, lists, partial: !complete }
}

/// Deletes the responses up to `cut`. Returns false if some may be left.
pub(super) async fn erase(parts: &CommandParts, person: &Person, cut: Timestamp) -> bool {
    let Responses { rows, partial, .. } = of(parts, person).await;
    let old = rows.into_iter().filter(|(_, response)| is_old(response, cut)).map(|(key, _)| key).collect();
    delete(parts, old).await && !partial
}
