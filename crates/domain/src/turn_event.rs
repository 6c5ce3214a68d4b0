//! What happens to a turn, as its clients see it: one ordered stream of numbered events for each place.
//!
//! A turn begins with [`TurnUpdate::Accepted`] and ends with [`TurnUpdate::Done`]. Between them the order is that in which
//! things happened. The whole answer is in one event, so a reader that missed drafts is whole again with it. A turn that is
//! taken up again, by another life of an actor or of the process, is accepted again and its draft begins anew.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::effort::{Effort, Outcome};
use super::ending::{Dropped, Ending, OverLimit};
pub use super::gate::GateDecision;
use super::ids::{Timestamp, TurnId};
use super::outgoing::Part;

/// One event of a place's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEvent {
    /// Its number: above 0, rising by one within one life of the process, and above every number of an earlier life. At
    /// most 2^53, so that every client can hold it exactly.
    pub number: u64,
    /// The turn that it is about, or the command: it is named after its message as well.
    pub turn: TurnId,
    /// What happened.
    pub update: TurnUpdate,
}

/// The most that is shown of a call of a tool, in Unicode scalar values.
pub const PREVIEW_MAX: usize = 2_000;

/// What happened to a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnUpdate {
    /// The journal has custody of it. It comes again when the turn is worked on from its beginning once more.
    Accepted,
    /// It waits for its lane.
    Queued {
        /// Turns before it in the lane, the running one included; at least 1.
        ahead: usize,
    },
    /// The answer grew.
    Draft {
        /// The text that follows on the draft so far.
        text: String,
        /// The draft begins here: what was shown of an earlier one is replaced.
        anew: bool,
    },
    /// A call of a tool changed its state.
    Tool {
        /// The call's id, unique in its turn.
        call: String,
        /// The tool's name.
        name: String,
        /// How the call is.
        state: ToolState,
        /// What is shown of it, at most [`PREVIEW_MAX`] characters: its arguments when it begins, how far it is while it runs, and what
        /// came of it when it ended.
        text: Option<String>,
    },
    /// A call waits for the approval of a person, or waits no longer.
    Gate {
        /// The gate's id: what a decision names.
        id: String,
        /// What is asked, in the words of a member's language.
        question: String,
        /// The exact arguments, as people are shown them.
        arguments: String,
        /// When an undecided gate counts as refused.
        expires_at: Timestamp,
        /// What was decided; none while it is open.
        decision: Option<GateDecision>,
    },
    /// The whole answer.
    Final {
        /// Its parts, in order.
        parts: Arc<[Part]>,
        /// What it took to find it.
        effort: Effort,
    },
    /// A word that there will be no answer, or no better one. Text that was drafted stands before it.
    Apology {
        /// Its parts, in order.
        parts: Arc<[Part]>,
        /// Why.
        why: NoAnswer,
        /// The time after which asking again may help; none where that is not known.
        again: Option<Duration>,
    },
    /// Nothing more follows on this turn. Without an answer before it, there is none.
    Done {
        /// Why the turn ended without an answer. What was drafted, or given as an answer, before it does not stand any more. None
        /// behind an answer or an apology that stands.
        unanswered: Option<Dropped>,
    },
}

/// Why there is no answer, or no better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// This limit refused it.
    OverLimit(OverLimit),
    /// The turn ended like this.
    Ended(Ending),
    /// It was never taken: there is too much to do, or its asker is not served.
    NotTaken,
}

impl TurnUpdate {
    /// The end of a turn behind its answer.
    pub const DONE: Self = Self::Done { unanswered: None };

    /// The end of a turn that has no answer.
    #[must_use]
    pub const fn unanswered(why: Dropped) -> Self {
        Self::Done { unanswered: Some(why) }
    }

    /// What those who read along are told of an answer.
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

/// How a call of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    /// It runs.
    Running,
    /// It gave a result.
    Succeeded,
    /// It failed, was refused or took too long.
    Failed,
}

impl TurnUpdate {
    /// The memory that its content takes, in bytes, about.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Accepted | Self::Queued { .. } | Self::Done { .. } => 0,
            Self::Draft { text, .. } => text.len(),
            Self::Tool { call, name, text, .. } => call.len() + name.len() + text.as_ref().map_or(0, String::len),
            Self::Gate { id, question, arguments, .. } => id.len() + question.len() + arguments.len(),
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
