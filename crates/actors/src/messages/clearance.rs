//! Permission to post the answer of a turn: its record is accepted, so this process owned the turn at that moment.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::watch;

use domain::ownership::Range;
use ports::Kept;

/// The outcome of a write about a turn, for several who wait for it.
pub type SharedKept = Shared<BoxFuture<'static, Kept>>;

/// Permission to post an answer. The default is always given: no other process can own the turn.
#[derive(Clone, Default)]
pub struct Clearance {
    /// The record of the answer, while its outcome may be unknown.
    record: Option<SharedKept>,
    /// The range of the turn, and the ranges that other processes took over.
    range: Option<(Range, watch::Receiver<Vec<Range>>)>,
}

impl Clearance {
    /// That of a turn of this range whose record is on its way.
    pub fn new(record: SharedKept, range: Range, fenced: watch::Receiver<Vec<Range>>) -> Self {
        Self { record: Some(record), range: Some((range, fenced)) }
    }

    /// Waits for the record, at most as long as the store waits for its backend. False if another process owns the turn; true also while the
    /// store cannot tell.
    pub async fn is_given(&self) -> bool {
        let accepted = match &self.record {
            Some(record) => record.clone().await != Kept::Fenced,
            None => true,
        };
        accepted && !self.is_lost()
    }

    /// True if another process has taken over the turn since, as far as is known here.
    pub fn is_lost(&self) -> bool {
        self.range.as_ref().is_some_and(|(range, fenced)| fenced.borrow().contains(range))
    }
}

/// Lets several wait for the outcome of a write.
pub fn shared(kept: BoxFuture<'static, Kept>) -> SharedKept {
    kept.shared()
}
