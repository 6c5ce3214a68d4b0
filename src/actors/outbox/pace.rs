//! How fast a place may go.

use std::time::Duration;

use tokio::time::Instant;

/// The longest wait that a platform may impose on one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);
/// The shortest time between two edits in one place.
pub(super) const EDIT_EVERY: Duration = Duration::from_secs(1);
/// How many requests of a place's bucket drafts leave for answers.
const DRAFTS_LEAVE: u32 = 1;

/// What a place allows, as far as it is known; handed from courier to courier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// What is left of the platform's bucket for this place, until when.
    pub left: Option<(u32, Instant)>,
    /// When a draft was last shown.
    pub drawn_at: Option<Instant>,
    /// When anything was last edited.
    pub edited_at: Option<Instant>,
}

impl Pace {
    /// Nothing of it matters any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.left.is_none_or(|(_, until)| until <= now) && self.may_edit(now)
    }

    /// Another draft may be begun.
    pub(super) fn may_draft(&self, now: Instant) -> bool {
        self.left.is_none_or(|(left, until)| left > DRAFTS_LEAVE || until <= now)
    }

    /// Nothing may go before then: the bucket is empty.
    pub(super) fn empty_until(&self) -> Option<Instant> {
        self.left.filter(|(left, _)| *left == 0).map(|(_, until)| until)
    }

    /// Enough time has gone by since the last change.
    pub(super) fn may_edit(&self, now: Instant) -> bool {
        let rested = |at: Option<Instant>| at.is_none_or(|at| at + EDIT_EVERY <= now);
        rested(self.drawn_at) && rested(self.edited_at)
    }
}
