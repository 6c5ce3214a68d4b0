//! Failure that is injected on purpose.

use super::Faults;

/// An injected failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Panic in the handler.
    Panic,
    /// Return an error from the handler.
    Error,
    /// Never come back from the handler.
    Hang,
}

/// No failure at all.
pub struct NoFaults;

impl Faults for NoFaults {
    fn before(&self, _path: &str) -> Option<Fault> {
        None
    }
}
