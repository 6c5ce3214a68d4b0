//! Events of the program. The actor at which an event happens reports it once. Log lines, metrics, spans, timelines,
//! the audit log and client events are renderings of these values.
//!
//! An event borrows its data, so reporting it allocates nothing unless a rendering needs it. Labels and sentences
//! belong to the renderings.

mod actors;
mod commands;
mod own_calls;
mod restrictions;
mod servers;
mod shards;
mod tool_calls;

pub use self::actors::ActorChange;
pub use self::commands::{CommandChange, CommandOutcome};
pub use self::own_calls::{CallPurpose, Summarised};
pub use self::restrictions::{Lifted, RestrictionChange};
pub use self::servers::{ServerChange, ServerRequest};
pub use self::shards::ShardChange;
pub use self::tool_calls::{CallOrigin, NotCalled, ToolCalled};

use std::time::Duration;

use serde_json::{Map, Value};

use crate::completion::Usage;
use crate::ending::{Dropped, Unposted};
use crate::gate::allowance::Allowance;
use crate::gate::{ApprovalDecision, Choice, Gate, GateId};
use crate::hosted::HostedCall;
use crate::ids::{Person, Place, Timestamp, TurnId};
use crate::limits::charge::Charge;
use crate::limits::{LimitRefusal, Reservation};
use crate::restriction::Member;
use crate::shed::Shed;
use crate::tool::ServerName;
use crate::turn::{Answer, Turn};

/// One event.
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// The journal accepted custody of a turn.
    TurnTaken {
        /// The turn.
        turn: &'a Turn,
        /// The time that a new turn took from its door to the journal; `None` if the journal accepted it before a restart.
        decided: Option<Duration>,
    },
    /// A turn is queued in its lane.
    TurnQueued {
        /// The turn.
        turn: &'a Turn,
        /// The number of turns before it in the lane, the running one included; at least 1.
        ahead: usize,
    },
    /// The limiter receives a reservation for the turn's member.
    TurnReserved(&'a TurnId, &'a Reservation),
    /// The lane started the turn.
    TurnStarted(&'a TurnId),
    /// The turn starts over from its beginning.
    TurnBegunAnew(&'a Turn),
    /// The turn is suspended until a person decides.
    TurnParked(&'a Gate),
    /// A decision, or the timeout of the question, is recorded with the turn.
    TurnDecided(&'a Gate, &'a ApprovalDecision),
    /// The turn was resumed.
    TurnResumed(&'a TurnId, Resumed),
    /// The charge of the turn is settled, with its tokens if they are known.
    TurnCharged(&'a TurnId, Charge, Option<u64>),
    /// The answer of the turn is known.
    TurnAnswered(&'a Turn, &'a Answer),
    /// The first words of an answer are visible while the rest is still being written.
    AnswerSeen(&'a TurnId),
    /// An answer or notice was posted for the turn, and the turn ended.
    TurnPosted(TurnPosted<'a>),
    /// The turn ended without an answer.
    TurnDropped {
        /// The turn.
        turn: &'a Turn,
        /// The reason.
        why: Dropped,
        /// The time since the turn was accepted.
        took: Duration,
    },
    /// The answer of the turn cannot be posted.
    TurnUndeliverable {
        /// The turn.
        turn: &'a Turn,
        /// The reason.
        reason: &'a Unposted,
        /// The time since the turn was accepted.
        took: Duration,
        /// The time since the answer was known.
        posting: Duration,
    },
    /// Ending the turn crashed the journal too often; the journal closed the turn without processing it again.
    TurnGivenUp(&'a TurnId),
    /// Another process owns the turn: this process drops it and posts nothing for it.
    TurnFenced(&'a Turn),
    /// The turn is closed and nothing more follows, with the reason if it has no answer.
    TurnClosed(&'a Turn, Option<Dropped>),
    /// The task of the turn panicked.
    TurnPanicked(&'a TurnId, &'a str),
    /// A restricted member wrote in a place where restricted members get no answer.
    RestrictedSpoke(&'a Turn),
    /// Work was rejected by load shedding.
    WorkShed(WorkShed<'a>),
    /// A turn exceeds a limit.
    LimitRefused(&'a TurnId, &'a LimitRefusal),

    /// A model row receives a request of the turn.
    ModelAsked(&'a TurnId, &'a str),
    /// A model call ended.
    ModelCalled(ModelCalled<'a>),
    /// The next model row is tried, because the rows before it failed.
    ModelFellBack {
        /// The turn.
        turn: &'a TurnId,
        /// The row that is tried now.
        row: &'a str,
        /// The rows that failed, in order.
        after: &'a [String],
    },
    /// This row receives the request for the rest of an interrupted answer.
    AnswerContinued(&'a TurnId, &'a str),
    /// A reply needed this number of repairs to satisfy its contract.
    ReplyRepaired(&'a TurnId, u32),
    /// The provider of a row rejects every request; the second value is the provider's message.
    RowRefused(&'a str, &'a str),
    /// The provider of a row accepts requests again.
    RowAccepted(&'a str),
    /// The circuit breaker of a row opened, for this reason.
    BreakerOpened(&'a str, &'a str),
    /// The circuit breaker of a row closed.
    BreakerClosed(&'a str),

    /// An attempt to summarise older exchanges of a conversation ended.
    Summarised(Summarised<'a>),

    /// A tool call began.
    ToolBegan {
        /// The turn.
        turn: &'a Turn,
        /// The number of the call in its turn.
        number: usize,
        /// The name of the tool.
        tool: &'a str,
        /// The arguments of the call.
        arguments: &'a Map<String, Value>,
        /// True if the call was refused before: it does not run, and its end follows.
        is_refused: bool,
    },
    /// A tool call reports progress.
    ToolProgressed {
        /// The turn.
        turn: &'a Turn,
        /// The number of the call in its turn.
        number: usize,
        /// The name of the tool.
        tool: &'a str,
        /// The progress message.
        words: &'a str,
    },
    /// A tool call ended or was rejected.
    ToolCalled(ToolCalled<'a>),
    /// A tool call of a command ended or was rejected.
    CommandCalled(ToolCalled<'a>),
    /// A tool call was answered without reaching the tool.
    ToolNotCalled {
        /// The turn.
        turn: &'a TurnId,
        /// The name of the tool, if the tool exists.
        tool: Option<&'a str>,
        /// The caller's role.
        role: &'static str,
        /// The reason.
        why: NotCalled<'a>,
    },

    /// The provider of a model called a tool itself.
    HostedToolCalled {
        /// The turn.
        turn: &'a Turn,
        /// The row of the model.
        row: &'a str,
        /// The caller's role.
        role: &'static str,
        /// The call.
        call: &'a HostedCall,
    },

    /// A person receives a request to approve a call.
    GateAsked {
        /// The question.
        gate: &'a Gate,
        /// True if the question was posted before a restart.
        again: bool,
    },
    /// Clients that follow the conversation receive the question.
    GateShown(&'a Gate),
    /// A question was decided.
    GateDecided {
        /// The question.
        gate: &'a Gate,
        /// The decision.
        decision: &'a ApprovalDecision,
        /// The button that was pressed; `None` if the timeout decided.
        choice: Option<Choice>,
        /// The time of the decision.
        at: Timestamp,
    },
    /// A click was rejected and decides nothing.
    GateRefused {
        /// The question that the click names.
        gate: &'a GateId,
        /// The reason.
        why: crate::gate::ClickRefusal,
        /// The author of the click.
        by: &'a str,
        /// The place of the click.
        place: Option<&'a Place>,
    },
    /// An allowance was granted: the same call runs without approval for a while.
    CallAllowed {
        /// The question whose answer granted it.
        gate: &'a Gate,
        /// The allowance.
        allowance: &'a Allowance,
        /// The time of the grant.
        at: Timestamp,
    },
    /// An allowance was withdrawn.
    AllowanceWithdrawn {
        /// The allowance.
        allowance: &'a Allowance,
        /// The person who withdrew it.
        by: &'a Person,
        /// True if it was withdrawn because all data about the person is being erased.
        forgotten: bool,
        /// The time of the withdrawal.
        at: Timestamp,
    },
    /// A task of a tool server, for which a turn waits, reports a new status.
    TaskReported {
        /// The gate of the turn.
        gate: &'a Gate,
        /// The status in the server's words.
        status: &'a str,
    },
    /// The number of open questions.
    GatesOpen(usize),

    /// The life of an actor changed.
    Actor {
        /// The path of the actor in the tree.
        path: &'a str,
        /// The label in metrics: the path, or one shared label for all actors of places.
        label: &'a str,
        /// The change.
        change: ActorChange<'a>,
    },
    /// A shard changed; the first value is its index, from zero.
    Shard(u32, ShardChange<'a>),
    /// A tool server changed, or a request to it ended.
    Server(&'a ServerName, ServerChange<'a>),
    /// A slash command changed, or the list of commands.
    Command(CommandChange<'a>),
    /// The restriction of a member changed.
    Restriction(&'a Member, RestrictionChange<'a>),
    /// The number of restrictions.
    RestrictionsActive(usize),
}

impl Happening<'_> {
    /// True if an accepted question got neither an answer nor an apology.
    #[must_use]
    pub fn loses_turn(&self) -> bool {
        match self {
            Self::TurnUndeliverable { turn, .. } => turn.trigger.is_asked(),
            Self::WorkShed(shed) => (shed.at, shed.bound) == (Shed::Shard, Bound::Tries),
            _ => false,
        }
    }
}

/// The reason for resuming a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// The turn was accepted before a restart.
    Earlier {
        /// True if its answer was known.
        answered: bool,
    },
    /// The actor that held the turn was restarted.
    OfferedAgain,
    /// The question that suspended the turn is decided.
    Decided,
}

/// The end of a turn for which an answer or notice was posted.
#[derive(Debug, Clone, Copy)]
pub struct TurnPosted<'a> {
    /// The turn.
    pub turn: &'a Turn,
    /// The posted answer; `None` if the journal does not have it.
    pub answer: Option<&'a Answer>,
    /// True if the trigger has two answers.
    pub doubled: bool,
    /// The time since the turn was accepted.
    pub took: Duration,
    /// The time since the first part became visible.
    pub visible_for: Duration,
    /// The time since the answer was known.
    pub posting: Duration,
    /// The number of messages.
    pub parts: usize,
}

/// Work rejected by load shedding.
#[derive(Debug, Clone, Copy)]
pub struct WorkShed<'a> {
    /// The component that rejected it.
    pub at: Shed,
    /// The turn; `None` if the work was not a turn.
    pub turn: Option<&'a TurnId>,
    /// The place of the request.
    pub place: Option<&'a Place>,
    /// The member who made the request.
    pub member: Option<&'a Person>,
    /// The exhausted bound.
    pub bound: Bound,
}

impl<'a> WorkShed<'a> {
    /// Builds the event for a turn that was rejected because too many turns are in progress.
    #[must_use]
    pub const fn of(at: Shed, turn: &'a Turn) -> Self {
        let (place, member) = (Some(&turn.place), Some(&turn.person));
        Self { at, turn: Some(&turn.id), place, member, bound: Bound::Number }
    }

    /// Builds the event for other rejected work, with its place and member if they are known.
    #[must_use]
    pub const fn beside(at: Shed, bound: Bound, said: Option<(&'a Place, &'a Person)>) -> Self {
        match said {
            Some((place, member)) => Self { at, turn: None, place: Some(place), member: Some(member), bound },
            None => Self { at, turn: None, place: None, member: None, bound },
        }
    }
}

/// The resource whose exhaustion caused the rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The number of items in progress or queued.
    Number,
    /// The number of attempts.
    Tries,
    /// The number of clicks being processed.
    Clicks,
}

/// A model call that ended.
#[derive(Debug, Clone, Copy)]
pub struct ModelCalled<'a> {
    /// The turn; `None` for the bot's own calls.
    pub turn: Option<&'a TurnId>,
    /// The purpose.
    pub purpose: CallPurpose,
    /// The key of the row.
    pub row: &'a str,
    /// The number of the attempt at this row, from 1.
    pub tries: u32,
    /// The duration.
    pub took: Duration,
    /// The result.
    pub result: Result<Completed<'a>, ModelFailed<'a>>,
    /// The cost in dollars; `None` if the row has no prices.
    pub cost: Option<f64>,
}

/// A summary of a completion.
#[derive(Debug, Clone, Copy)]
pub struct Completed<'a> {
    /// The finish reason.
    pub finish: &'a str,
    /// The number of tool calls in the completion.
    pub calls: usize,
    /// The token usage.
    pub usage: Usage,
}

/// A summary of a failed model call.
#[derive(Debug, Clone, Copy)]
pub struct ModelFailed<'a> {
    /// The label of the kind of failure.
    pub kind: &'static str,
    /// The reason, without text from the provider.
    pub reason: &'a str,
    /// The provider's message, which may quote the request; `None` if the reason is complete.
    pub quoted: Option<&'a str>,
    /// The tokens streamed before the failure, a lower bound; `None` if nothing was streamed.
    pub streamed: Option<Usage>,
}

impl ModelCalled<'_> {
    /// Returns the token usage as far as it is known.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match self.result {
            Ok(completed) => Some(completed.usage),
            Err(failed) => failed.streamed,
        }
    }

    /// Returns the label of the failure; `None` if the call succeeded.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        self.result.err().map(|failed| failed.kind)
    }
}
