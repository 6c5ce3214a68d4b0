//! Planted defects: mutations of the program that its simulation must find. Without the feature `planted` none exists,
//! and [`Defect::is_planted`] is always false.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The defects, each in one line of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// A platform's event is acknowledged before its turn is durable.
    EarlyReceipt,
    /// A post after a lost answer is repeated without a look at the channel.
    BlindRepeat,
    /// A turn that had side effects runs again after a restart.
    RepeatedEffect,
    /// The click of any member decides.
    AnyClicker,
    /// A turn is closed before its answer is posted.
    EarlyClose,
    /// Two turns of one lane run at the same time.
    NoLane,
    /// Open turns of the process before are not adopted.
    NoAdoption,
    /// The limiter admits one question more than the limit.
    OneMore,
    /// `/forget` leaves the history.
    KeptHistory,
    /// A turn in flight writes back what `/forget` deleted.
    WrittenBack,
    /// All members of a place share one conversation.
    SharedHistory,
    /// The journal does not offer its turns again after an actor failed.
    NoOfferAgain,
    /// A failed turn ends without an apology.
    NoApology,
    /// An answer in parts stops after its first part.
    FirstPartOnly,
    /// A message that arrives twice is accepted twice.
    NoDedupe,
    /// A post that failed for the moment is not tried again.
    NoRetry,
    /// An approved call of a parked turn runs twice.
    TwiceApproved,
    /// A call that needs an approval runs without one.
    NoGate,
    /// A denial counts as an approval.
    DeniedRuns,
    /// An answer is posted in the place with the id of its member.
    OtherPlace,
}

static PLANTED: AtomicUsize = AtomicUsize::new(usize::MAX);

impl Defect {
    /// All defects.
    pub const ALL: [Self; 20] = [
        Self::EarlyReceipt,
        Self::BlindRepeat,
        Self::RepeatedEffect,
        Self::AnyClicker,
        Self::EarlyClose,
        Self::NoLane,
        Self::NoAdoption,
        Self::OneMore,
        Self::KeptHistory,
        Self::WrittenBack,
        Self::SharedHistory,
        Self::NoOfferAgain,
        Self::NoApology,
        Self::FirstPartOnly,
        Self::NoDedupe,
        Self::NoRetry,
        Self::TwiceApproved,
        Self::NoGate,
        Self::DeniedRuns,
        Self::OtherPlace,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EarlyReceipt => "early-receipt",
            Self::BlindRepeat => "blind-repeat",
            Self::RepeatedEffect => "repeated-effect",
            Self::AnyClicker => "any-clicker",
            Self::EarlyClose => "early-close",
            Self::NoLane => "no-lane",
            Self::NoAdoption => "no-adoption",
            Self::OneMore => "one-more",
            Self::KeptHistory => "kept-history",
            Self::WrittenBack => "written-back",
            Self::SharedHistory => "shared-history",
            Self::NoOfferAgain => "no-offer-again",
            Self::NoApology => "no-apology",
            Self::FirstPartOnly => "first-part-only",
            Self::NoDedupe => "no-dedupe",
            Self::NoRetry => "no-retry",
            Self::TwiceApproved => "twice-approved",
            Self::NoGate => "no-gate",
            Self::DeniedRuns => "denied-runs",
            Self::OtherPlace => "other-place",
        }
    }

    /// Returns the defect with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|defect| defect.name() == name)
    }

    /// True if the program has this defect.
    #[must_use]
    pub fn is_planted(self) -> bool {
        cfg!(feature = "planted") && PLANTED.load(Ordering::Relaxed) == self as usize
    }

    /// Plants the defect in this process, in place of an earlier one. No effect without the feature `planted`.
    pub fn plant(self) {
        PLANTED.store(self as usize, Ordering::Relaxed);
    }
}
