//! The readers of events. To add a reader, write a file that implements `Observer`, and add it to this list or to
//! [`Parts::observers`].

use std::sync::Arc;

use super::Parts;
use crate::account::Account;
use ports::Observer;

/// Returns the account with all its readers.
pub(super) fn account(parts: &Parts) -> Account {
    let own: [Arc<dyn Observer>; 3] =
        [Arc::clone(&parts.timeline) as _, Arc::clone(&parts.audit) as _, Arc::new(parts.events.clone())];
    Account::new(own.into_iter().chain(parts.observers.iter().cloned()))
}
