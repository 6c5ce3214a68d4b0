//! The readers of what happens. A further one is a file that implements `Observer`, and a place in this list or in
//! [`Parts::observers`].

use std::sync::Arc;

use super::Parts;
use crate::account::Account;
use ports::Observer;

/// The account with all its readers.
pub(super) fn account(parts: &Parts) -> Account {
    let own: [Arc<dyn Observer>; 3] =
        [Arc::clone(&parts.timeline) as _, Arc::clone(&parts.audit) as _, Arc::new(parts.events.clone())];
    Account::new(own.into_iter().chain(parts.observers.iter().cloned()))
}
