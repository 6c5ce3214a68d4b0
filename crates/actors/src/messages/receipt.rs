//! Custody of incoming events: a receipt travels with an event until another actor owns the event durably.

use std::time::Duration;

use tokio::time::Instant;

/// Proof that an event was handed over. Settling it acknowledges the event. Dropping it unsettled, as a crash does with
/// a mailbox, requests redelivery.
pub struct Receipt {
    owner: Option<Box<dyn FnOnce(Outcome) + Send>>,
    awaited: bool,
    since: Instant,
}

/// The outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The event is durably owned, or needs no owner.
    Settled,
    /// The event was lost and must be redelivered.
    Returned,
}

impl Receipt {
    /// Returns a receipt that calls `owner` exactly once with the outcome of its event.
    pub fn new(owner: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { owner: Some(Box::new(owner)), awaited: false, since: Instant::now() }
    }

    /// Returns a receipt for an event whose sender awaits the custody.
    pub fn awaited(owner: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { owner: Some(Box::new(owner)), awaited: true, since: Instant::now() }
    }

    /// True if a sender awaits the custody.
    pub const fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Returns the time since the event began its way with this receipt.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Acknowledges the event.
    pub fn settle(mut self) {
        self.tell(Outcome::Settled);
    }

    fn tell(&mut self, outcome: Outcome) {
        if let Some(owner) = self.owner.take() {
            owner(outcome);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.tell(Outcome::Returned);
    }
}
