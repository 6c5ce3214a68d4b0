//! What those who ask models tell the dispatcher, and what it answers.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::runtime::handle::Reply;
use domain::completion::{Completion, Usage};
use domain::ids::{Person, TurnId};
use domain::model::Row;
use ports::ModelError;

/// The messages that the dispatcher handles.
pub enum LlmDispatcherMsg {
    /// Asks for a lease on a model call. The reply comes when a permit is free, or at once where the priority does not wait.
    Acquire {
        /// The row asked for; none means the default row.
        row: Option<String>,
        /// Keys of the rows that may answer; empty for all.
        among: Vec<String>,
        /// Keys of the rows that failed for this turn.
        tried: Vec<String>,
        /// Its priority.
        priority: Priority,
        /// The permit, or why there is none.
        reply: Reply<Result<Lease, NoModel>>,
    },
    /// The outcome of a call.
    Report(Report),
}

/// The priority of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Priority {
    /// This person waits for it: it waits for a permit, and permits go round by person.
    Waits(Person),
    /// No person waits for it: it takes a permit only if one is free and no request waits.
    IfFree,
    /// It can wait: the same, and never one of the last permits.
    Spare,
}

/// The right to make one call to one model. Dropping it gives the permit back.
pub struct Lease {
    /// The model.
    pub row: Row,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Why no model can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoModel {
    /// Every row failed.
    Exhausted,
    /// The breakers of all remaining rows are open; the first of them rests for so long.
    Open(Duration),
    /// There is no permit for a call that must not wait.
    Busy,
}

/// How one call went.
pub struct Report {
    /// For which turn; none for a line of status.
    pub turn: Option<TurnId>,
    /// Whose turn it is; none for the bot's own.
    pub person: Option<Person>,
    /// Key of the row that was asked.
    pub row: String,
    /// Which try of this row it was, from one.
    pub tries: u32,
    /// Its duration.
    pub took: std::time::Duration,
    /// Tokens that had been streamed when it failed, a lower bound; none when nothing had. A stream that flowed is no failure of the
    /// model.
    pub streamed: Option<Usage>,
    /// Its result: the completion without its text, or the error.
    pub result: Result<Summary, ModelError>,
}

/// What is logged of a completion.
pub struct Summary {
    /// Why it stopped.
    pub finish: String,
    /// Its tokens.
    pub usage: Usage,
    /// The number of tool calls in it.
    pub calls: usize,
}

impl From<&Completion> for Summary {
    fn from(completion: &Completion) -> Self {
        Self { finish: completion.finish.as_str().to_owned(), usage: completion.usage, calls: completion.calls.len() }
    }
}
