//! Custody on the way in: a receipt travels with an event until somebody else durably owns it.

/// Proof that an event was handed on. Settling it says "safely taken"; dropping it unsettled, as a crash does with a mailbox,
/// says "give it to me again".
pub struct Receipt {
    owner: Option<Box<dyn FnOnce(Outcome) + Send>>,
    awaited: bool,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is durably owned, or needs no owner.
    Settled,
    /// It was lost on the way.
    Returned,
}

impl Receipt {
    /// A receipt that tells `owner` exactly once what became of its event.
    pub fn new(owner: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { owner: Some(Box::new(owner)), awaited: false }
    }

    /// The same for an event whose asker waits for custody.
    pub fn awaited(owner: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self { owner: Some(Box::new(owner)), awaited: true }
    }

    /// Whether an asker waits for custody.
    pub const fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// The event is safely taken.
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
