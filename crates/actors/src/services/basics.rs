//! The services that nearly every actor uses.

use std::sync::Arc;

use crate::services::running::Live;
use ports::{Clock, Dice, Store};

/// The services that nearly every actor uses. Clones share them.
#[derive(Clone)]
pub struct Basics {
    /// The running configuration of this process.
    pub live: Live,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub dice: Arc<dyn Dice>,
}
