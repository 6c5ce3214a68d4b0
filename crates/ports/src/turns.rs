//! Custody of turns: the journal's records, and the ownership under which they are written.

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{Scanned, Store, Unreadable, Write};
use domain::custody::Record;
use domain::ids::TurnId;
use domain::ownership::{FencingToken, Portion, Range};
use domain::turn::{ClosedTurn, OpenTurn, Turn};

/// The pace at which a write is sent to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Batched with other writes of the next few milliseconds (group commit).
    Gathered,
    /// Immediately, because the caller waits for it.
    Now,
}

/// The outcome of a write about a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is durable, and its writer owned the turn at that time.
    Durable,
    /// The store is degraded and holds it in memory. The current owner of the turn is unknown.
    InMemory,
    /// It is refused without effect, because another process owns the turn now.
    Fenced,
}

impl WriteOutcome {
    /// True if it is durable.
    #[must_use]
    pub fn is_durable(self) -> bool {
        self == Self::Durable
    }
}

/// A store that fences former owners of turns. A write about owned turns contains the range of its owner. The store
/// checks the token of that range atomically with the write, and refuses the write of a former owner.
pub trait OwnedStore: Store {
    /// Takes ownership of these ranges: the store acquires the next token of each, which fences the earlier owners.
    /// During an outage of the backend, writes stay in memory and the tokens are acquired before the merge.
    fn own(&self, ranges: Vec<Range>);

    /// Resolves when the tokens are acquired or the store is degraded, at the latest after the store's own deadline.
    fn owned(&self) -> BoxFuture<'_, ()>;

    /// Ends the ownership of these ranges after their last writes are durable, or refused, or failed. Later writes under
    /// them are refused.
    fn leave(&self, ranges: Vec<Range>) -> BoxFuture<'_, ()>;

    /// Returns the token of this process's writes about a range; [`FencingToken::NONE`] before it has one.
    fn token(&self, range: &Range) -> FencingToken;

    /// Applies the writes atomically and in order, if this process owns the range when they become durable. As with
    /// [`Store::write`], they are visible in this process immediately. Dropping the future has no effect.
    fn write_under(&self, range: &Range, writes: Vec<Write>, pace: Pace) -> BoxFuture<'static, WriteOutcome>;

    /// Returns the ranges that other processes took over from this one. Ranges are never removed from it.
    fn fenced(&self) -> watch::Receiver<Vec<Range>>;

    /// True if other processes may write to the store concurrently.
    fn is_shared(&self) -> bool;
}

/// The journal's records of turns. Writes become visible in call order and durable later; no call waits for a backend.
pub trait Turns: Send + Sync {
    /// Records an accepted turn, with its answer if it is known.
    fn accept(&self, open: &OpenTurn, pace: Pace) -> BoxFuture<'static, WriteOutcome>;

    /// Records a change of an open turn: side effects, a decision, a refusal, a request to be forgotten.
    fn update(&self, open: &OpenTurn, pace: Pace) -> BoxFuture<'static, WriteOutcome>;

    /// Records, atomically, a turn that awaits a decision and its dialogue so far.
    fn park(&self, open: &OpenTurn, dialogue: String) -> BoxFuture<'static, WriteOutcome>;

    /// Records the answer of a turn. If [`Self::is_shared`], it may be delivered once this resolves to anything but
    /// [`WriteOutcome::Fenced`].
    fn answered(&self, open: &OpenTurn) -> BoxFuture<'static, WriteOutcome>;

    /// Records, atomically, the end of a turn and these writes.
    fn close(&self, turn: &Turn, closed: ClosedTurn, with: Vec<Write>) -> BoxFuture<'static, WriteOutcome>;

    /// Reads the records of earlier processes, after this process acquired its tokens. Former owners can change nothing
    /// after that. Incomplete if the store did not return all records.
    fn adopt(&self) -> BoxFuture<'_, Scanned<Vec<Adopted>>>;

    /// Reads the record of one turn, if there is one.
    ///
    /// # Errors
    /// The store does not answer.
    fn recorded<'a>(&'a self, id: &'a TurnId) -> BoxFuture<'a, Result<Option<Adopted>, Unreadable>>;

    /// Returns the range whose owner writes about this turn; `None` for a turn without an owner.
    fn range_of(&self, turn: &Turn) -> Option<Range>;

    /// True if this process may accept the turn: it owns its range, or the turn has no owner.
    fn owns(&self, turn: &Turn) -> bool;

    /// Takes ownership of a further portion of the turns. [`Self::adopt`] then reads its records.
    fn take(&self, portion: Portion);

    /// Accepts no further turns of this portion.
    fn refuse(&self, portion: Portion);

    /// Ends the ownership of this portion after its last write is durable.
    fn leave(&self, portion: Portion) -> BoxFuture<'_, ()>;

    /// See [`OwnedStore::fenced`].
    fn fenced(&self) -> watch::Receiver<Vec<Range>>;

    /// See [`OwnedStore::is_shared`].
    fn is_shared(&self) -> bool;
}

/// One record of an earlier process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The key of the record, for the log.
    pub key: String,
    /// The turn; `None` if the key names none.
    pub id: Option<TurnId>,
    /// The record, or the reason why it cannot be read.
    pub record: Result<Record, String>,
}
