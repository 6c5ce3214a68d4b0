//! Custody of turns: the journal's records, and the ownership under which they are written.

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{Store, Write};
use domain::custody::Record;
use domain::ids::TurnId;
use domain::ownership::{FencingToken, Range};
use domain::turn::{ClosedTurn, OpenTurn, Turn};

/// The time at which a write is sent to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Together with others that come within some milliseconds.
    Gathered,
    /// At once: its caller waits for it.
    Now,
}

/// The outcome of a write about a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is durable, and its writer owned the turn when it became so.
    Durable,
    /// The store is degraded and holds it in memory. Whether its writer still owns the turn is not known.
    InMemory,
    /// It is refused and has no effect: another process owns the turn now.
    Fenced,
}

impl Kept {
    /// True if it is durable.
    #[must_use]
    pub fn is_durable(self) -> bool {
        self == Self::Durable
    }
}

/// A store that keeps owners of turns apart. A write about owned turns carries the range of its owner; the store checks the token of that
/// range in the same step that applies the write, and refuses the write of an owner that another one followed.
pub trait OwnedStore: Store {
    /// Begins to own these ranges: the store takes the next token of each, so that their earlier owners are fenced from then on. While the
    /// backend is away, writes wait in memory and the tokens are taken before anything is merged back.
    fn own(&self, ranges: Vec<Range>);

    /// Ends when the tokens are taken, or when the store is degraded; at the latest after a deadline of the store's own.
    fn owned(&self) -> BoxFuture<'_, ()>;

    /// The token under which this process writes about a range; [`FencingToken::NONE`] before it has one.
    fn token(&self, range: &Range) -> FencingToken;

    /// Applies the writes as one, in order, if this process owns the range when they become durable. As with [`Store::write`] they are
    /// visible here at once. Dropping the future changes nothing.
    fn write_under(&self, range: &Range, writes: Vec<Write>, pace: Pace) -> BoxFuture<'static, Kept>;

    /// The ranges that other processes have taken over from this one. They never come back.
    fn fenced(&self) -> watch::Receiver<Vec<Range>>;

    /// True if other processes may write to it at the same time.
    fn is_shared(&self) -> bool;
}

/// The journal's records of turns. Writes become visible in the order of the calls and durable later; nothing here waits for a backend.
pub trait Turns: Send + Sync {
    /// Records a turn that was accepted, perhaps with its answer.
    fn accept(&self, open: &OpenTurn, pace: Pace) -> BoxFuture<'static, Kept>;

    /// Records that something is known of an open turn: that it acts, a decision, a refusal, a wish to be forgotten.
    fn update(&self, open: &OpenTurn, pace: Pace) -> BoxFuture<'static, Kept>;

    /// Records a turn that waits for a decision together with what was said so far, as one.
    fn park(&self, open: &OpenTurn, dialogue: String) -> BoxFuture<'static, Kept>;

    /// Records the answer of a turn. Where [`Self::is_shared`], it is delivered once this resolves with anything but [`Kept::Fenced`].
    fn answered(&self, open: &OpenTurn) -> BoxFuture<'static, Kept>;

    /// Records that a turn is over, together with these writes, as one.
    fn close(&self, turn: &Turn, closed: ClosedTurn, with: Vec<Write>) -> BoxFuture<'static, Kept>;

    /// Reads what earlier lives left, after this process has taken its tokens: a former owner changes nothing any more by then.
    fn adopt(&self) -> BoxFuture<'_, Vec<Adopted>>;

    /// The range whose owner writes about this turn; none for a turn without an owner.
    fn range_of(&self, turn: &Turn) -> Option<Range>;

    /// See [`OwnedStore::fenced`].
    fn fenced(&self) -> watch::Receiver<Vec<Range>>;

    /// See [`OwnedStore::is_shared`].
    fn is_shared(&self) -> bool;
}

/// One record that an earlier life left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The key of the record, for the log.
    pub key: String,
    /// The turn; none where the key names none.
    pub id: Option<TurnId>,
    /// The record, or why it cannot be read.
    pub record: Result<Record, String>,
}
