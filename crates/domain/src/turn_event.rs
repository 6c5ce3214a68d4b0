//! The events of turns for clients: one ordered stream of numbered events per place.
//!
//! A turn begins with [`TurnUpdate::Accepted`] and ends with [`TurnUpdate::Done`]; the events between them are in order
//! of occurrence. One event carries the whole answer, so a reader that missed drafts still gets all of it. When a turn
//! is resumed after a restart of an actor or of the process, it is accepted again and its draft starts over.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::effort::{Effort, Outcome};
use super::ending::{Dropped, Ending, OverLimit};
pub use super::gate::GateDecision;
use super::gate::Subject;
use super::ids::{Timestamp, TurnId};
use super::outgoing::Part;
use super::tool::called::{CallEnd, NotApproved};
use super::tool::failure::ToolFailure;

/// One event of a place's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEvent {
    /// The number: above 0, increasing by one within one run of the process, and above every number of earlier runs. At
    /// most 2^53, so that every client can represent it exactly.
    pub number: u64,
    /// The id of the turn or of the command. A command, too, is named after its message.
    pub turn: TurnId,
    /// The update.
    pub update: TurnUpdate,
}

/// The longest preview of a tool call, in Unicode scalar values.
pub const PREVIEW_MAX: usize = 2_000;

/// An update of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnUpdate {
    /// The journal has custody of the turn. Repeated when work on the turn starts over.
    Accepted,
    /// The turn is queued in its lane.
    Queued {
        /// The number of turns before it in the lane, including the running one; at least 1.
        ahead: usize,
    },
    /// The answer grew.
    Draft {
        /// The text to append to the draft.
        text: String,
        /// True if the draft starts over: this text replaces the earlier draft.
        anew: bool,
    },
    /// A tool call changed its state.
    Tool {
        /// The call's id, unique in its turn.
        call: String,
        /// The tool's name.
        name: String,
        /// The state of the call.
        state: ToolState,
        /// The category of the failure, for a failed call with one.
        failure: Option<ToolFailure>,
        /// The preview, at most [`PREVIEW_MAX`] characters: the arguments at the start, the progress while the call
        /// runs, and the result at the end.
        text: Option<String>,
    },
    /// A tool call awaits approval, or its approval request ended.
    Gate {
        /// The gate's id, which decisions refer to.
        id: String,
        /// The question to the approver, in a language of the members.
        question: String,
        /// The exact arguments, as shown to people.
        arguments: String,
        /// The subject of the decision.
        subject: Subject,
        /// The time after which an undecided gate counts as refused.
        expires_at: Timestamp,
        /// The decision; `None` while the gate is open.
        decision: Option<GateDecision>,
    },
    /// A task of a tool's server, for which the turn waits, reports its status.
    Task {
        /// The id of the gate, which stops the task.
        id: String,
        /// The tool's name.
        name: String,
        /// The status in the server's words.
        status: String,
    },
    /// The whole answer.
    Final {
        /// Its parts, in order.
        parts: Arc<[Part]>,
        /// The effort spent on it.
        effort: Effort,
    },
    /// A notice that there is no answer, or no better one. Text drafted before it stays valid.
    Apology {
        /// Its parts, in order.
        parts: Arc<[Part]>,
        /// The reason.
        why: NoAnswer,
        /// The time after which a retry may succeed; `None` if unknown.
        again: Option<Duration>,
    },
    /// The end of the turn's events. If no answer came before it, the turn has none.
    Done {
        /// The reason why the turn ended without an answer; earlier drafts and answers of the turn are then void.
        /// `None` if the answer or apology before it is valid.
        unanswered: Option<Dropped>,
    },
}

/// The reason why there is no answer, or no better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// A limit refused it.
    OverLimit(OverLimit),
    /// The turn ended for this reason.
    Ended(Ending),
    /// The turn was never accepted: the bot is overloaded, or the author is not served.
    NotTaken,
}

impl TurnUpdate {
    /// The end of a turn after its answer.
    pub const DONE: Self = Self::Done { unanswered: None };

    /// Returns the end of a turn without an answer.
    #[must_use]
    pub const fn unanswered(why: Dropped) -> Self {
        Self::Done { unanswered: Some(why) }
    }

    /// Returns the update that tells clients about an answer.
    #[must_use]
    pub fn answer(parts: Arc<[Part]>, outcome: &Outcome, effort: &Effort) -> Self {
        match outcome {
            Outcome::Replied | Outcome::Hinted => Self::Final { parts, effort: effort.clone() },
            Outcome::Apologised(why) => {
                let again = effort.again_ms.map(Duration::from_millis);
                Self::Apology { parts, why: NoAnswer::Ended(*why), again }
            }
            Outcome::Refused(limit) => Self::Apology { parts, why: NoAnswer::OverLimit(*limit), again: None },
        }
    }
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    /// It runs.
    Running,
    /// It returned a result.
    Succeeded,
    /// It failed, was refused or timed out.
    Failed,
    /// A person denied it, or did not approve it in time. It did not run.
    Denied,
}

impl From<&CallEnd> for ToolState {
    /// Returns the state of a call that ended so.
    fn from(end: &CallEnd) -> Self {
        match end {
            CallEnd::NotApproved(NotApproved::Denied | NotApproved::Expired) => Self::Denied,
            CallEnd::Begun(_) => Self::Running,
            _ if end.succeeded() => Self::Succeeded,
            _ => Self::Failed,
        }
    }
}

impl TurnUpdate {
    /// Returns the approximate size of its content in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Accepted | Self::Queued { .. } | Self::Done { .. } => 0,
            Self::Draft { text, .. } => text.len(),
            Self::Tool { call, name, text, .. } => call.len() + name.len() + text.as_ref().map_or(0, String::len),
            Self::Gate { id, question, arguments, subject, .. } => {
                id.len() + question.len() + arguments.len() + subject.size()
            }
            Self::Task { id, name, status } => id.len() + name.len() + status.len(),
            Self::Final { parts, .. } | Self::Apology { parts, .. } => parts.iter().map(part_size).sum(),
        }
    }
}

fn part_size(part: &Part) -> usize {
    match part {
        Part::File(file) => file.bytes.len(),
        Part::Text { .. }
        | Part::Code { .. }
        | Part::Formula { .. }
        | Part::Card(_)
        | Part::Buttons { .. }
        | Part::Calls { .. } => part.text().len(),
    }
}
