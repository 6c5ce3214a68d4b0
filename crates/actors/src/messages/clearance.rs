//! Permission to post the answer of a turn: the store accepted its record, so this process owned the turn at that
//! moment.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::watch;

use domain::ownership::Range;
use ports::WriteOutcome;

/// The outcome of a write about a turn, shared by several tasks.
pub type SharedKept = Shared<BoxFuture<'static, WriteOutcome>>;

/// Permission to post an answer. The default is always granted, for turns that no other process can own.
#[derive(Clone, Default)]
pub struct Clearance {
    /// The write of the answer's record, while its outcome may be unknown.
    record: Option<SharedKept>,
    /// The range of the turn, and the ranges that other processes have taken over.
    range: Option<(Range, watch::Receiver<Vec<Range>>)>,
}

impl Clearance {
    /// Returns the clearance of a turn of this range whose record is being written.
    pub fn new(record: SharedKept, range: Range, fenced: watch::Receiver<Vec<Range>>) -> Self {
        Self { record: Some(record), range: Some((range, fenced)) }
    }

    /// Awaits the write of the record, at most for the store's backend timeout. False if another process owns the turn;
    /// true also while the store cannot determine the owner.
    pub async fn is_given(&self) -> bool {
        let accepted = match &self.record {
            Some(record) => record.clone().await != WriteOutcome::Fenced,
            None => true,
        };
        accepted && !self.is_lost()
    }

    /// True if this process knows that another process has taken over the turn.
    pub fn is_lost(&self) -> bool {
        self.range.as_ref().is_some_and(|(range, fenced)| fenced.borrow().contains(range))
    }
}

/// Makes the outcome of a write available to several tasks.
pub fn shared(kept: BoxFuture<'static, WriteOutcome>) -> SharedKept {
    kept.shared()
}
