//! Facts: what a member told us to keep beyond the conversation, for whom and where it is found again.
//!
//! A fact belongs to the person who told it and to the place it was told in. It is found for that person alone, and only in a place all
//! of whose readers could read the place it was told in, because what is found may stand in the answer, which all of them read:
//!
//! | told in | found in | |
//! |---|---|---|
//! | a place | the same place | who reads the answer could read the words |
//! | a channel | a thread below it | a door names a place above another one only where the readers of the lower one may read the upper one |
//! | a thread | not in the channel above it | a private thread has fewer readers, and no message says which threads are private |
//! | a channel | not in another one | no message says who may read a channel, and what is known of rights may be old |
//! | a direct conversation | nowhere else | nobody else could read it |
//! | anywhere else | not in a direct conversation | it may be one of several people: no message says that only two are in it |
//!
//! The rule compares names of places and looks up no right, so nothing that is known late or wrongly can open it. What is found in a
//! thread and told again there belongs to the thread from then on, so no chain of facts leads further than one of them.
//!
//! What a fact says is the words of a member, perhaps as a model understood them: data, that decides nothing.

pub mod index;
pub mod prompt;
pub mod search;
mod words;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clean::clean;
pub use super::fact_id::{FactId, NoFactId};
use super::ids::{MessageId, Place, Timestamp};
use super::tool::OnBehalf;

/// The most facts of one member that any setting allows: all of them are looked at in one search.
pub const FACTS_MAX: usize = 200;
/// The longest fact that any setting allows, in bytes.
pub const FACT_BYTES_MAX: usize = 1_000;

/// The bounds of what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Facts of one member, at most [`FACTS_MAX`]; 0 keeps none.
    pub facts: usize,
    /// The length of a fact in bytes, at most [`FACT_BYTES_MAX`].
    pub bytes: usize,
    /// Facts of all members.
    pub total: u64,
    /// The life of a fact from when it was told last.
    pub ttl: Duration,
}

impl Bounds {
    /// A fact that was told then is over.
    #[must_use]
    pub fn is_over(&self, told: Timestamp, now: Timestamp) -> bool {
        now.since(told) > self.ttl
    }
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name.
    pub id: FactId,
    /// What was told, in one line.
    pub text: String,
    /// Where it was told.
    pub place: Place,
    /// When the message was written that told it last.
    pub told: Timestamp,
    /// That message.
    pub message: MessageId,
}

/// Why something is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// The operator switched it off, or the door keeps nothing.
    #[error("facts are not kept here")]
    Off,
    /// There are no words.
    #[error("there is nothing to keep")]
    Empty,
    /// It is longer than so many bytes.
    #[error("a fact has at most {0} bytes: say it in fewer words")]
    TooLong(usize),
    /// The member has so many already.
    #[error("this member has {0} facts already, which is all there is room for: one must be forgotten first")]
    Full(usize),
    /// There is no room for anybody's.
    #[error("there is no room for more facts")]
    NoRoom,
    /// The member wished to be forgotten after they asked this.
    #[error("the member wished to be forgotten")]
    Forgotten,
    /// The message that told it is gone.
    #[error("the message that told it was deleted")]
    Deleted,
    /// The store does not answer.
    #[error("the memory does not answer now")]
    Away,
}

impl Fact {
    /// A fact that is told now.
    ///
    /// # Errors
    /// It is no fact, or too long.
    pub fn new(told: &OnBehalf, text: &str, bounds: Bounds) -> Result<Self, NotKept> {
        if bounds.facts == 0 || !told.keeps {
            return Err(NotKept::Off);
        }
        // What is far too long is not even looked through.
        if text.len() > FACT_BYTES_MAX * 4 {
            return Err(NotKept::TooLong(bounds.bytes));
        }
        let text = clean(text, usize::MAX).split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.contains(char::is_alphanumeric) {
            return Err(NotKept::Empty);
        }
        if text.len() > bounds.bytes.min(FACT_BYTES_MAX) {
            return Err(NotKept::TooLong(bounds.bytes.min(FACT_BYTES_MAX)));
        }
        let id = FactId::of(&told.place, &text);
        Ok(Self { id, text, place: told.place.clone(), told: told.at, message: told.turn.trigger() })
    }
}

/// What came of telling a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its name.
    pub id: FactId,
    /// It was there before, and lives on from now.
    pub before: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The facts that fit, the best one first; at most [`FOUND_MAX`].
    pub facts: Vec<Fact>,
    /// How many may be found in that place, whatever they are about.
    pub all: usize,
}

/// The most facts that one search finds.
pub const FOUND_MAX: usize = 10;

/// Where a fact is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// The place whose readers read the answer.
    pub place: &'a Place,
    /// The place above it.
    pub parent: Option<&'a Place>,
}

impl<'a> Here<'a> {
    /// Where this call's result is read.
    #[must_use]
    pub fn of(asked: &'a OnBehalf) -> Self {
        Self { place: &asked.place, parent: asked.parent.as_ref() }
    }

    /// Whether what its member told in that place is found here; see the table above.
    #[must_use]
    pub fn finds(self, told_in: &Place) -> bool {
        told_in == self.place || Some(told_in) == self.parent
    }
}

#[cfg(test)]
mod tests;
