//! Custody of incoming events: a receipt travels with an event until another actor owns the event durably.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Proof that an event was handed over. Settling it acknowledges the event. Dropping it unsettled, as a crash does with
/// a mailbox, requests redelivery.
pub struct Receipt {
    owner: Option<Box<dyn FnOnce(Outcome) + Send>>,
    /// The claim that it shares with the sender that awaits the custody, if there is one.
    claim: Option<Claim>,
    since: Instant,
}

/// The decision between the two ends of an awaited event: an actor takes it, or its sender stops waiting.
#[derive(Debug, Clone, Default)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Decides for the caller. Returns false if the other side was first.
    #[must_use]
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
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
        Self { owner: Some(Box::new(owner)), claim: None, since: Instant::now() }
    }

    /// Returns a receipt for an event whose sender awaits the custody. The sender takes the claim if it stops waiting.
    pub fn awaited(claim: Claim, owner: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { owner: Some(Box::new(owner)), claim: Some(claim), since: Instant::now() }
    }

    /// Claims the event before it takes effect. Returns false if its sender stopped waiting: the event then has no
    /// effect, because the sender reported that it was not accepted.
    pub fn claim(&self) -> bool {
        self.claim.as_ref().is_none_or(Claim::take)
    }

    /// True if a sender awaits the custody.
    pub const fn is_awaited(&self) -> bool {
        self.claim.is_some()
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
