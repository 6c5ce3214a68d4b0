//! Facts: information that a member asked the bot to remember, and the rule for who finds it where.
//!
//! A fact belongs to the member and to the place where it was told. It is found only for that member, and only in a
//! place all of whose readers could read the original place, because a found fact may appear in the answer:
//!
//! | told in | found in | reason |
//! |---|---|---|
//! | a place | the same place | the readers of the answer could read the original |
//! | a channel | a thread below it | a door reports a parent only if all readers of the thread may read the parent |
//! | a thread | not in the channel above it | a private thread has fewer readers, and messages do not say which threads are private |
//! | a channel | not in another channel | messages do not say who may read a channel, and known rights may be outdated |
//! | a direct conversation, a session | nowhere else, but see below | only its members could read it |
//! | anywhere else | not in a direct conversation | it may be a group: messages do not say that it has only two members |
//!
//! The rule compares place ids and looks up no rights, so outdated or wrong data about rights cannot open it. A fact
//! that is found in a thread and told again there belongs to the thread, so a chain of facts extends no further than
//! a single one.
//!
//! A person with [linked](crate::people) accounts has one memory for what only they read: a fact that one account told
//! in a direct conversation with the bot, or in a session, is found by the other accounts in such places. All readers
//! of both are the same person. The mark of such a place is stored with the fact, and set by the door alone.
//!
//! The text of a fact is a member's words, perhaps rephrased by a model. It is data and decides nothing.

pub mod index;
pub mod prompt;
pub mod search;
mod words;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clean::clean;
pub use super::fact_id::{FactId, NoFactId};
use super::ids::{MessageId, Person, Place, Timestamp};
use super::tool::OnBehalf;

/// The largest configurable number of facts of one member. One search examines all of them.
pub const FACTS_MAX: usize = 200;
/// The longest configurable fact, in bytes.
pub const FACT_BYTES_MAX: usize = 1_000;

/// The bounds of stored facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Facts of one member, at most [`FACTS_MAX`]; 0 disables facts.
    pub facts: usize,
    /// The length of a fact in bytes, at most [`FACT_BYTES_MAX`].
    pub bytes: usize,
    /// Facts of all members.
    pub total: u64,
    /// The TTL of a fact, from the last time it was told.
    pub ttl: Duration,
}

impl Bounds {
    /// True if a fact last told at `told` has expired.
    #[must_use]
    pub fn is_over(&self, told: Timestamp, now: Timestamp) -> bool {
        now.since(told) > self.ttl
    }
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The id.
    pub id: FactId,
    /// The text, in one line.
    pub text: String,
    /// The place where it was told.
    pub place: Place,
    /// The time of the message that last told it.
    pub told: Timestamp,
    /// The id of that message.
    pub message: MessageId,
    /// True if only the member read the place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// The reason why a fact is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// The operator disabled facts, or the door stores none.
    #[error("facts are not kept here")]
    Off,
    /// The text is empty.
    #[error("there is nothing to keep")]
    Empty,
    /// The text is longer than this many bytes.
    #[error("a fact has at most {0} bytes: say it in fewer words")]
    TooLong(usize),
    /// The member already has this many facts.
    #[error("this member has {0} facts already, which is all there is room for: one must be forgotten first")]
    Full(usize),
    /// The total number of facts is reached.
    #[error("there is no room for more facts")]
    NoRoom,
    /// The member ran `/forget` after this question.
    #[error("the member wished to be forgotten")]
    Forgotten,
    /// The message that told the fact was deleted.
    #[error("the message that told it was deleted")]
    Deleted,
    /// The store does not respond.
    #[error("the memory does not answer now")]
    Away,
}

impl Fact {
    /// Creates a fact told now.
    ///
    /// # Errors
    /// Facts are disabled, or the text is empty or too long.
    pub fn new(told: &OnBehalf, text: &str, bounds: Bounds) -> Result<Self, NotKept> {
        if bounds.facts == 0 || !told.keeps {
            return Err(NotKept::Off);
        }
        // A much too long text is rejected before it is cleaned.
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
        Ok(Self { id, text, place: told.place.clone(), told: told.at, message: told.turn.trigger(), alone: told.alone })
    }
}

/// The result of storing a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The id.
    pub id: FactId,
    /// True if the fact was already stored; its TTL starts again.
    pub before: bool,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactMatches {
    /// The matching facts, best first; at most [`FOUND_MAX`].
    pub facts: Vec<Fact>,
    /// The number of all facts that may be found in that place.
    pub all: usize,
}

/// Maximum number of facts that one search returns.
pub const FOUND_MAX: usize = 10;

/// The place where facts are requested.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// The place whose readers see the answer.
    pub place: &'a Place,
    /// The parent of that place.
    pub parent: Option<&'a Place>,
    /// True if the facts belong to another account of the person who asks, and only this person reads the place.
    pub alone: bool,
}

impl<'a> Here<'a> {
    /// Returns the place where this call's result is read, for the facts of this account of the person.
    #[must_use]
    pub fn of(asked: &'a OnBehalf, account: &Person) -> Self {
        let alone = asked.alone && *account != asked.person;
        Self { place: &asked.place, parent: asked.parent.as_ref(), alone }
    }

    /// True if a fact told in that place, perhaps with the person alone, may be found here; see the table above.
    #[must_use]
    pub fn finds(self, told_in: &Place, alone: bool) -> bool {
        told_in == self.place || Some(told_in) == self.parent || (self.alone && alone)
    }
}

#[cfg(test)]
mod tests;
