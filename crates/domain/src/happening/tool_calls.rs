//! Tool calls that ended, and the reasons for calls that were not made.

use std::time::Duration;

use crate::ids::{Person, Place, Timestamp, TurnId};
use crate::tool::called::CallEnd;
use crate::tool::round::Ready;
use crate::turn::Turn;

/// The turn or the command that makes a call.
#[derive(Debug, Clone, Copy)]
pub struct CallOrigin<'a> {
    /// The id of the turn or of the command.
    pub id: &'a TurnId,
    /// The person who asked.
    pub person: &'a Person,
    /// The place.
    pub place: &'a Place,
    /// The time of the question or of the command.
    pub at: Timestamp,
}

impl<'a> From<&'a Turn> for CallOrigin<'a> {
    fn from(turn: &'a Turn) -> Self {
        let Turn { id, person, place, at, .. } = turn;
        Self { id, person, place, at: *at }
    }
}

/// A tool call that ended or was rejected.
#[derive(Debug, Clone, Copy)]
pub struct ToolCalled<'a> {
    /// The origin of the call.
    pub origin: CallOrigin<'a>,
    /// The number of the call in its turn or command.
    pub number: usize,
    /// The call.
    pub call: &'a Ready,
    /// The caller's role.
    pub role: &'static str,
    /// The number of the rule that decided, from 1; `None` if no rule matched.
    pub rule: Option<usize>,
    /// The end of the call; `None` if the call was cancelled together with its turn.
    pub end: Option<&'a CallEnd>,
    /// The time spent queued behind other calls of its round.
    pub queued: Duration,
    /// The time spent on permits and records.
    pub waited: Duration,
    /// The time spent in the tool source; `None` if the call did not reach it.
    pub ran: Option<Duration>,
    /// The time from the call's position in the round to its end.
    pub took: Duration,
    /// The cost that the tool paid, in millionths of a dollar.
    pub paid_micros: u64,
}

impl ToolCalled<'_> {
    /// Returns the label of the outcome.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.end.map_or(CallEnd::CANCELLED, CallEnd::as_str)
    }

    /// Returns the label of the failure; `None` if the call succeeded.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        Some(self.outcome()).filter(|outcome| *outcome != CallEnd::OK)
    }
}

/// The reason why a tool call did not reach the tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NotCalled<'a> {
    /// The call does not match the tool's schema, or the tool does not exist.
    Invalid,
    /// The turn answered the call itself.
    Answered,
    /// The turn has no calls left.
    Spent,
    /// The call was suspended for a decision and is no longer possible.
    Impossible(&'a CallEnd),
}

impl NotCalled<'_> {
    /// Returns the label of the outcome.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Invalid | Self::Spent => "invalid",
            Self::Answered => CallEnd::OK,
            Self::Impossible(end) => end.as_str(),
        }
    }
}
