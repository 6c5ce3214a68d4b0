//! Everything that happens in the program, told once by the actor to which it happens. Log lines, metrics, spans, time lines, the audit and
//! the events of clients are renderings of these values.
//!
//! A happening borrows all that it says: telling it costs no allocation that no reader asks for. Labels and sentences belong to
//! the renderings.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::completion::Usage;
use crate::ending::{Dropped, Unposted};
use crate::gate::allowance::Allowance;
use crate::gate::{Choice, Decision, Gate, GateId};
use crate::ids::{Person, Place, Timestamp, TurnId};
use crate::limits::charge::Charge;
use crate::limits::{Refusal, Reservation};
use crate::shed::Shed;
use crate::tool::called::CallEnd;
use crate::tool::round::Ready;
use crate::turn::{Answer, Turn};

/// One thing that happened.
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// The journal has custody of a turn.
    TurnTaken {
        /// The turn.
        turn: &'a Turn,
        /// It came now; otherwise an earlier life of the journal accepted it.
        fresh: bool,
    },
    /// A turn waits in its lane.
    TurnQueued {
        /// The turn.
        turn: &'a Turn,
        /// Turns before it in the lane, the running one included; at least 1.
        ahead: usize,
    },
    /// The limits of the turn's member are asked for this.
    TurnReserved(&'a TurnId, &'a Reservation),
    /// The lane let the turn begin.
    TurnStarted(&'a TurnId),
    /// The turn is worked on from its beginning once more.
    TurnBegunAnew(&'a Turn),
    /// The turn waits for the decision of a person.
    TurnParked(&'a Gate),
    /// A decision, or the end of waiting for one, is on record with the turn.
    TurnDecided(&'a Gate, &'a Decision),
    /// The turn was taken up again.
    TurnResumed(&'a TurnId, Resumed),
    /// What the turn counts for its member is known: so many tokens where that is known.
    TurnCharged(&'a TurnId, Charge, Option<u64>),
    /// The answer of the turn is known.
    TurnAnswered(&'a Turn, &'a Answer),
    /// The first words of an answer can be seen while it is still being written.
    AnswerSeen(&'a TurnId),
    /// Something was posted for the turn, and the turn ended with it.
    TurnPosted(TurnPosted<'a>),
    /// The turn ended without an answer.
    TurnDropped {
        /// The turn.
        turn: &'a Turn,
        /// The reason.
        why: Dropped,
        /// The time since it was accepted.
        took: Duration,
    },
    /// The answer of the turn cannot be posted.
    TurnUndeliverable {
        /// The turn.
        turn: &'a Turn,
        /// The reason.
        reason: &'a Unposted,
        /// The time since it was accepted.
        took: Duration,
        /// The time since its answer was known.
        posting: Duration,
    },
    /// The end of the turn failed the journal too often; the turn was closed without looking at it again.
    TurnGivenUp(&'a TurnId),
    /// Nothing more follows on the turn; with the reason if it has no answer.
    TurnClosed(&'a Turn, Option<Dropped>),
    /// The task of the turn panicked.
    TurnPanicked(&'a TurnId, &'a str),
    /// A restricted member spoke where no restricted member is answered.
    RestrictedSpoke(&'a Turn),
    /// Work was turned away because too much was going on.
    WorkShed(WorkShed<'a>),
    /// A turn is over a limit.
    LimitRefused(&'a TurnId, &'a Refusal),

    /// A row of models is asked for the turn.
    ModelAsked(&'a TurnId, &'a str),
    /// A call of a model ended.
    ModelCalled(ModelCalled<'a>),
    /// The next row is asked, because those before it failed.
    ModelFellBack {
        /// The turn.
        turn: &'a TurnId,
        /// The row that is asked now.
        row: &'a str,
        /// The rows that failed, in order.
        after: &'a [String],
    },
    /// This row is asked for the rest of an answer that broke off.
    AnswerContinued(&'a TurnId, &'a str),
    /// A reply needed so many repairs to fit its contract.
    ReplyRepaired(&'a TurnId, u32),
    /// The provider of a row refuses every turn alike, in these words.
    RowRefused(&'a str, &'a str),
    /// The provider of a row takes its calls again.
    RowAccepted(&'a str),
    /// The breaker of a row opened, for this reason.
    BreakerOpened(&'a str, &'a str),
    /// The breaker of a row closed.
    BreakerClosed(&'a str),

    /// A call of a tool began.
    ToolBegan {
        /// The turn.
        turn: &'a Turn,
        /// The number of the call in its turn.
        number: usize,
        /// The name of the tool.
        tool: &'a str,
        /// Its arguments.
        arguments: &'a Map<String, Value>,
    },
    /// A call of a tool tells how far it is.
    ToolProgressed {
        /// The turn.
        turn: &'a Turn,
        /// The number of the call in its turn.
        number: usize,
        /// The name of the tool.
        tool: &'a str,
        /// The progress, in words.
        words: &'a str,
    },
    /// A call of a tool ended, or was not let through.
    ToolCalled(ToolCalled<'a>),
    /// A call of a tool was answered without being one.
    ToolNotCalled {
        /// The turn.
        turn: &'a TurnId,
        /// The name of the tool, if there is one of that name.
        tool: Option<&'a str>,
        /// The caller's role.
        role: &'static str,
        /// The reason.
        why: NotCalled<'a>,
    },

    /// A person is asked about a call; `again` if an earlier life asked already.
    GateAsked {
        /// The question.
        gate: &'a Gate,
        /// An earlier life posted it.
        again: bool,
    },
    /// Clients that read along are shown the question.
    GateShown(&'a Gate),
    /// A question is decided.
    GateDecided {
        /// The question.
        gate: &'a Gate,
        /// The decision.
        decision: &'a Decision,
        /// The button that was pressed; none if the clock decided.
        choice: Option<Choice>,
        /// The moment.
        at: Timestamp,
    },
    /// A click decides nothing.
    GateRefused {
        /// The question that was named.
        gate: &'a GateId,
        /// The reason.
        why: crate::gate::Refusal,
        /// The author of the click.
        by: &'a str,
        /// The place of the click.
        place: Option<&'a Place>,
    },
    /// The same call runs for a while without a question.
    CallAllowed {
        /// The question with which it was allowed.
        gate: &'a Gate,
        /// The allowance.
        allowance: &'a Allowance,
        /// The moment.
        at: Timestamp,
    },
    /// An allowance was taken back.
    AllowanceWithdrawn {
        /// The allowance.
        allowance: &'a Allowance,
        /// The person who took it back.
        by: &'a Person,
        /// The person is being forgotten with all that is kept of them.
        forgotten: bool,
        /// The moment.
        at: Timestamp,
    },
    /// So many questions are open.
    GatesOpen(usize),
}

/// Why a turn goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// An earlier life of the journal left it; `answered` if its answer was known.
    Earlier {
        /// Its answer was known.
        answered: bool,
    },
    /// The actor that worked on it was restarted.
    OfferedAgain,
    /// The question that it waited for is decided.
    Decided,
}

/// The end of a turn that something was posted for.
#[derive(Debug, Clone, Copy)]
pub struct TurnPosted<'a> {
    /// The turn.
    pub turn: &'a Turn,
    /// The posted answer; none where the journal does not know it.
    pub answer: Option<&'a Answer>,
    /// The trigger was found answered twice.
    pub doubled: bool,
    /// The time since the turn was accepted.
    pub took: Duration,
    /// The time since its first part can be seen.
    pub visible_for: Duration,
    /// The time since its answer was known.
    pub posting: Duration,
    /// The number of messages.
    pub parts: usize,
}

/// Work that was turned away.
#[derive(Debug, Clone, Copy)]
pub struct WorkShed<'a> {
    /// Where.
    pub at: Shed,
    /// The turn, where the work was one.
    pub turn: Option<&'a TurnId>,
    /// Where it was asked for.
    pub place: Option<&'a Place>,
    /// The person who asked.
    pub member: Option<&'a Person>,
    /// The bound that was met, or why nothing more is tried.
    pub bound: Bound,
}

impl<'a> WorkShed<'a> {
    /// A turn that was turned away because there were too many.
    #[must_use]
    pub const fn of(at: Shed, turn: &'a Turn) -> Self {
        let (place, member) = (Some(&turn.place), Some(&turn.person));
        Self { at, turn: Some(&turn.id), place, member, bound: Bound::Number }
    }

    /// Something else that was turned away, said by this member in this place where that is known.
    #[must_use]
    pub const fn beside(at: Shed, bound: Bound, said: Option<(&'a Place, &'a Person)>) -> Self {
        match said {
            Some((place, member)) => Self { at, turn: None, place: Some(place), member: Some(member), bound },
            None => Self { at, turn: None, place: None, member: None, bound },
        }
    }
}

/// The resource that is exhausted when work is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The number of things that are under way or wait.
    Number,
    /// The number of tries.
    Tries,
    /// The number of clicks that are being answered.
    Clicks,
}

/// A call of a model that ended.
#[derive(Debug, Clone, Copy)]
pub struct ModelCalled<'a> {
    /// The turn; none for a line of status.
    pub turn: Option<&'a TurnId>,
    /// The key of the row.
    pub row: &'a str,
    /// The number of the try of this row, from one.
    pub tries: u32,
    /// The duration.
    pub took: Duration,
    /// The result.
    pub result: Result<Completed<'a>, ModelFailed<'a>>,
    /// Dollars, if the row has prices.
    pub cost: Option<f64>,
}

/// The facts about a completion.
#[derive(Debug, Clone, Copy)]
pub struct Completed<'a> {
    /// Why it stopped.
    pub finish: &'a str,
    /// The number of tool calls in it.
    pub calls: usize,
    /// Its tokens.
    pub usage: Usage,
}

/// The facts about a call of a model that failed.
#[derive(Debug, Clone, Copy)]
pub struct ModelFailed<'a> {
    /// The label of the kind of failure.
    pub kind: &'static str,
    /// The reason, without the provider's words.
    pub reason: &'a str,
    /// The provider's words, which may quote the request; none if the reason says it all.
    pub quoted: Option<&'a str>,
    /// The tokens that had been streamed, a lower bound; none if there were none.
    pub streamed: Option<Usage>,
}

impl ModelCalled<'_> {
    /// The tokens that are known to be used.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match self.result {
            Ok(completed) => Some(completed.usage),
            Err(failed) => failed.streamed,
        }
    }

    /// The label of its failure.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        self.result.err().map(|failed| failed.kind)
    }
}

/// A call of a tool that ended, or was not let through.
#[derive(Debug, Clone, Copy)]
pub struct ToolCalled<'a> {
    /// The turn.
    pub turn: &'a Turn,
    /// The number of the call in its turn.
    pub number: usize,
    /// The call.
    pub call: &'a Ready,
    /// The caller's role.
    pub role: &'static str,
    /// The number of the rule that decided, from one; none if no rule did.
    pub rule: Option<usize>,
    /// Its end; none if the call was cut off with its turn.
    pub end: Option<&'a CallEnd>,
    /// The time that it waited behind other calls of its round.
    pub queued: Duration,
    /// The time that it waited for permits and records.
    pub waited: Duration,
    /// The time that its source had it; none if the call did not reach its source.
    pub ran: Option<Duration>,
    /// The time from its place in the round to its end.
    pub took: Duration,
}

impl ToolCalled<'_> {
    /// The label of its outcome.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.end.map_or(CallEnd::CANCELLED, CallEnd::as_str)
    }

    /// The label of its failure.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        Some(self.outcome()).filter(|outcome| *outcome != CallEnd::OK)
    }
}

/// Why a call of a tool did not become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NotCalled<'a> {
    /// It does not fit the tool, or there is no such tool.
    Invalid,
    /// The turn answered it by itself.
    Answered,
    /// The turn has no calls left.
    Spent,
    /// It waited for a decision, and cannot be made any more.
    Impossible(&'a CallEnd),
}

impl NotCalled<'_> {
    /// The label of its outcome.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::Invalid | Self::Spent => "invalid",
            Self::Answered => CallEnd::OK,
            Self::Impossible(end) => end.as_str(),
        }
    }
}
