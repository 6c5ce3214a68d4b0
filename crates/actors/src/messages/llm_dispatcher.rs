//! Messages of the model dispatcher, and its replies.

use std::time::Duration;

use crate::model_permits::ModelPermit;
use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::completion::{Completion, Usage};
use domain::happening::CallPurpose;
use domain::ids::{Person, TurnId};
use domain::model::Row;
use ports::ModelError;

/// The messages that the dispatcher handles.
pub enum LlmDispatcherMsg {
    /// Requests a lease on a model call. The reply arrives when a permit is free, or at once if the priority does not
    /// queue.
    Acquire {
        /// The requested row; `None` means the default row.
        row: Option<String>,
        /// Keys of the rows that may answer; empty means all.
        among: Vec<String>,
        /// Keys of the rows that failed for this turn.
        tried: Vec<String>,
        /// Its priority.
        priority: Priority,
        /// The lease, or the reason for its refusal.
        reply: Reply<Result<Lease, NoModel>>,
    },
    /// Reports the outcome of a call.
    Report(Report),
}

named!(LlmDispatcherMsg: Acquire, Report);

/// The priority of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Priority {
    /// A member awaits the result: the request queues for a permit, and permits rotate over persons.
    Waits(Person),
    /// No member awaits the result: the request gets a permit only if one is free and no request is queued.
    IfFree,
    /// Deferrable work: as `IfFree`, but never one of the last permits.
    Spare,
}

impl Priority {
    /// Returns the member who awaits the result, if one does.
    pub(crate) const fn person(&self) -> Option<&Person> {
        match self {
            Self::Waits(person) => Some(person),
            Self::IfFree | Self::Spare => None,
        }
    }
}

/// A lease on one call to one model. Dropping it returns the permit.
pub struct Lease {
    /// The model.
    pub row: Row,
    #[expect(dead_code, reason = "dropping it returns the permit")]
    pub(crate) permit: ModelPermit,
}

/// The reason why no model is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoModel {
    /// Every row failed.
    Exhausted,
    /// The circuit breakers of all remaining rows are open; the shortest remaining open time.
    Open(Duration),
    /// No permit is free for a call that does not queue.
    Busy,
}

/// The outcome of one call.
pub struct Report {
    /// The turn of the call; `None` for the bot's own calls.
    pub turn: Option<TurnId>,
    /// The purpose of the call.
    pub purpose: CallPurpose,
    /// The member of the turn; `None` for the bot's own calls.
    pub person: Option<Person>,
    /// The key of the row.
    pub row: String,
    /// The number of this attempt at the row, from one.
    pub tries: u32,
    /// The duration of the call.
    pub took: std::time::Duration,
    /// The number of tokens streamed before a failure, a lower bound; `None` if there were none. A stream that
    /// delivered tokens does not count as a failure of the model.
    pub streamed: Option<Usage>,
    /// The result: the completion without its text, or the error.
    pub result: Result<Summary, ModelError>,
}

/// The logged part of a completion.
pub struct Summary {
    /// The finish reason.
    pub finish: String,
    /// The token usage.
    pub usage: Usage,
    /// The number of tool calls in the completion.
    pub calls: usize,
}

impl From<&Completion> for Summary {
    fn from(completion: &Completion) -> Self {
        Self { finish: completion.finish.as_str().to_owned(), usage: completion.usage, calls: completion.calls.len() }
    }
}
