//! A gate: the approval of one tool call by a person, as a state machine that does not wait.
//!
//! A gate is bound to one call: its hash covers the server, the tool's own description, and the arguments. It is
//! decided once: by the member who asked or, if a rule names approvers, only by a holder of one of their roles. A
//! gate that expires undecided counts as refused. An approval permits the call; the journal ensures that it runs only
//! once.

pub mod allowance;

pub mod overview;

pub mod passed;

mod shown;
mod subject;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use self::shown::shown;
pub use self::subject::{
    OWN_TASKS_MAX, QUESTION_BYTES_MAX, SERVER_TASKS_MAX, Subject, TASK_LONGEST_MAX, TASKS_MAX, TaskWait,
};
use super::arguments_hash::ArgumentsHash;
use super::caller::{Callback, Caller};
use super::ids::{Door, MessageId, Person, Place, Timestamp, TurnId};
use super::locale::Locale;
use crate::hex::hex;
use crate::planted::Defect;
use crate::question::{Form, Misfit};

/// The largest arguments that can be approved, in bytes as shown.
pub const ARGUMENTS_MAX: usize = 32 * 1024;

/// Maximum number of open gates of one person.
pub const OWN_MAX: usize = 5;

/// Maximum number of open gates; communities share them.
pub const OPEN_MAX: usize = 256;

/// The largest stored state of a turn that waits for a decision, in bytes.
pub const PARKED_BYTES_MAX: usize = 256 * 1024;

/// The longest time that a gate stays open. A waiting turn is kept for a day.
pub const EXPIRY_MAX: Duration = Duration::from_secs(12 * 3_600);

/// The lifetime of a standing allowance for repeated calls.
pub const ALLOWED_FOR: Duration = crate::keys::ALLOWANCE_TTL;

/// The number of digits of a gate's id: 128 bits, not guessable.
const ID_DIGITS: usize = 32;

/// The number of digits of a gate's id that distinguish the parts of a turn.
const PART_DIGITS: usize = 8;

/// The prefix of the names of gate buttons.
const BUTTON: &str = "gate";

/// The id of a gate. It cannot be guessed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateId(String);

impl GateId {
    /// Creates the id of a gate for this call of a turn. `rolls` are random numbers; the other inputs keep ids
    /// distinct without randomness.
    #[must_use]
    pub fn draw(rolls: [f64; 4], turn: &TurnId, hash: &ArgumentsHash, now: Timestamp) -> Self {
        let mut digest = Sha256::new();
        for roll in rolls {
            digest.update(roll.to_bits().to_be_bytes());
        }
        digest.update(now.0.to_be_bytes());
        digest.update(hash.0.as_bytes());
        digest.update(turn.to_string().as_bytes());
        Self(hex(&digest.finalize())[..ID_DIGITS].to_owned())
    }

    /// Parses an id. `None` if the text has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (text.len() == ID_DIGITS && text.bytes().all(digit)).then(|| Self(text.to_owned()))
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool call that waits for a decision, and who may decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The id.
    pub id: GateId,
    /// The waiting turn.
    pub turn: TurnId,
    /// The place of the question, where it must be decided.
    pub place: Place,
    /// The member who asked.
    pub requester: Person,
    /// True if the requester is a timer or a webhook, which the platform does not know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// The language of the question.
    #[serde(default)]
    pub locale: Option<String>,
    /// Ids of the roles whose holders decide. Empty: the requester decides.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// The name of the tool in calls.
    pub tool: String,
    /// The identity of the call.
    pub hash: ArgumentsHash,
    /// The arguments as shown to people: JSON that reads as the call's own.
    pub arguments: String,
    /// The subject of the decision.
    #[serde(default, skip_serializing_if = "Subject::is_approval")]
    pub subject: Subject,
    /// The time of the question.
    pub asked_at: Timestamp,
    /// The time from which it counts as refused.
    pub expires_at: Timestamp,
}

impl Gate {
    /// Returns the requester as a mention, or as a plain name if unattended.
    #[must_use]
    pub fn asker(&self) -> String {
        let id = &self.requester.id;
        if self.unattended { format!("`{id}`") } else { format!("<@{id}>") }
    }

    /// Returns the language of the question.
    #[must_use]
    pub fn locale(&self) -> Locale {
        Locale::of(self.locale.as_deref())
    }

    /// True if this decider may decide.
    #[must_use]
    pub fn is_for(&self, who: &Clicker) -> bool {
        match who {
            Clicker::Member(caller) if self.approvers.is_empty() => {
                caller.person == self.requester || Defect::AnyClicker.is_planted()
            }
            Clicker::Member(caller) => {
                caller.person.door == self.place.door && caller.roles.iter().any(|role| self.approvers.contains(role))
            }
            Clicker::Client(door, person) => {
                let theirs = person.as_ref().is_none_or(|person| *person == self.requester);
                *door == self.place.door && self.approvers.is_empty() && theirs
            }
        }
    }
}

/// The origin of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clicker {
    /// A member, authenticated by the platform.
    Member(Caller),
    /// A program admitted at this door. It speaks for this person; without one, for the requester at that door.
    Client(Door, Option<Person>),
}

impl Clicker {
    /// Returns the member, or the person for whom a program speaks.
    #[must_use]
    pub const fn person(&self) -> Option<&Person> {
        match self {
            Self::Member(caller) => Some(&caller.person),
            Self::Client(_, person) => person.as_ref(),
        }
    }
}

/// A possible decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Approve this call.
    Once,
    /// Approve it and, for [`ALLOWED_FOR`], the same call in this place.
    Hour,
    /// Deny it.
    Deny,
    /// Show the form of a question. Decides nothing.
    Open,
}

impl Choice {
    /// All choices, in the order shown.
    pub const ALL: [Self; 4] = [Self::Open, Self::Once, Self::Hour, Self::Deny];

    /// Returns the word used in button names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Hour => "hour",
            Self::Deny => "deny",
            Self::Open => "open",
        }
    }

    /// Returns the name of its button, at most 100 characters. It contains only the gate and the choice.
    #[must_use]
    pub fn button(self, gate: &GateId) -> String {
        format!("{BUTTON}:{gate}:{}", self.as_str())
    }

    /// Parses the name of a gate button. `None` for other buttons.
    #[must_use]
    pub fn of_button(name: &str) -> Option<(GateId, Self)> {
        let (gate, word) = name.strip_prefix(BUTTON)?.strip_prefix(':')?.split_once(':')?;
        let choice = Self::ALL.into_iter().find(|choice| choice.as_str() == word)?;
        Some((GateId::parse(gate)?, choice))
    }
}

/// A request to decide a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    /// The gate.
    pub gate: GateId,
    /// The choice.
    pub choice: Choice,
    /// The answers to a form, by the names of its fields.
    pub answers: Map<String, Value>,
    /// The decider.
    pub by: Clicker,
    /// The place of the click. `None` if the door has no places.
    pub place: Option<Place>,
    /// The means to answer. `None` if the decider receives the outcome directly.
    pub callback: Option<Callback>,
}

impl Click {
    /// Returns the id of the click.
    #[must_use]
    pub fn id(&self) -> Option<&MessageId> {
        self.callback.as_ref().map(|callback| &callback.id)
    }
}

/// The decision about a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// The call may run.
    Approved {
        /// The decider; `None` for a program.
        by: Option<Person>,
    },
    /// The call may not run.
    Denied {
        /// The decider; `None` for a program.
        by: Option<Person>,
    },
    /// The member filled in the form of the server.
    Answered {
        /// The member; `None` for a program.
        by: Option<Person>,
        /// The values that the form accepts.
        content: Map<String, Value>,
    },
    /// The task of the server has a result or a question.
    Finished,
    /// No decision before the gate expired.
    Expired,
    /// The question could not be posted.
    NotAsked,
    /// The request was withdrawn, with all its data.
    Withdrawn,
}

/// The decision about a gate, as reported to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    /// The call may run.
    Approved,
    /// The call may not run.
    Refused,
    /// No decision in time.
    Expired,
}

impl ApprovalDecision {
    /// Returns the label in logs and audit records.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Answered { .. } => "answered",
            Self::Finished => "finished",
            Self::Expired => "expired",
            Self::NotAsked => "not_asked",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Returns the decider.
    #[must_use]
    pub const fn by(&self) -> Option<&Person> {
        match self {
            Self::Approved { by } | Self::Denied { by } | Self::Answered { by, .. } => by.as_ref(),
            Self::Finished | Self::Expired | Self::NotAsked | Self::Withdrawn => None,
        }
    }

    /// Converts to the form reported to clients.
    #[must_use]
    pub const fn told(&self) -> GateDecision {
        match self {
            Self::Approved { .. } | Self::Answered { .. } | Self::Finished => GateDecision::Approved,
            Self::Denied { .. } | Self::NotAsked | Self::Withdrawn => GateDecision::Refused,
            Self::Expired => GateDecision::Expired,
        }
    }
}

/// The reason why a click has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClickRefusal {
    /// The gate does not exist, or no longer.
    Unknown,
    /// The gate belongs to another place.
    WrongPlace,
    /// The member may not decide it.
    NotTheirs,
    /// It was already decided.
    Decided,
    /// It expired.
    Expired,
    /// The decision could not be stored.
    NotRecorded,
    /// An answer does not fit its field.
    Misfit(Misfit),
}

impl ClickRefusal {
    /// Returns the log label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::WrongPlace => "wrong_place",
            Self::NotTheirs => "not_theirs",
            Self::Decided => "decided",
            Self::Expired => "expired",
            Self::NotRecorded => "not_recorded",
            Self::Misfit(_) => "misfit",
        }
    }
}

/// A gate with its decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The gate.
    pub gate: Gate,
    /// The decision; `None` while open.
    #[serde(default)]
    pub decision: Option<ApprovalDecision>,
}

impl Case {
    /// Creates an open gate.
    #[must_use]
    pub const fn open(gate: Gate) -> Self {
        Self { gate, decision: None }
    }

    /// Applies a click. A refused click changes nothing.
    ///
    /// # Errors
    /// See [`ClickRefusal`].
    pub fn click(&mut self, click: &Click, now: Timestamp) -> Result<ApprovalDecision, ClickRefusal> {
        let gate = &self.gate;
        if click.gate != gate.id {
            return Err(ClickRefusal::Unknown);
        }
        if click.place.as_ref().is_some_and(|place| *place != gate.place) {
            return Err(ClickRefusal::WrongPlace);
        }
        if !gate.is_for(&click.by) {
            return Err(ClickRefusal::NotTheirs);
        }
        if self.decision.is_some() {
            return Err(ClickRefusal::Decided);
        }
        if now >= gate.expires_at {
            return Err(ClickRefusal::Expired);
        }
        let by = click.by.person().cloned();
        let decision = match (&gate.subject, click.choice) {
            (_, Choice::Deny) if Defect::DeniedRuns.is_planted() => ApprovalDecision::Approved { by },
            (_, Choice::Deny) => ApprovalDecision::Denied { by },
            (Subject::Approval, Choice::Once | Choice::Hour) | (Subject::Link { .. }, Choice::Once) => {
                ApprovalDecision::Approved { by }
            }
            (Subject::Form { form, .. }, Choice::Once) => {
                let content = form.accept(&click.answers).map_err(ClickRefusal::Misfit)?;
                ApprovalDecision::Answered { by, content }
            }
            (_, Choice::Open)
            | (Subject::Form { .. } | Subject::Link { .. }, Choice::Hour)
            | (Subject::Task(_), Choice::Once | Choice::Hour) => return Err(ClickRefusal::Unknown),
        };
        self.decision = Some(decision.clone());
        Ok(decision)
    }

    /// Returns the form of a question for this click, if it opens it and its author may answer.
    #[must_use]
    pub fn form_for(&self, click: &Click, now: Timestamp) -> Option<&Form> {
        let Subject::Form { form, .. } = &self.gate.subject else { return None };
        let here = click.place.as_ref().is_none_or(|place| *place == self.gate.place);
        let open = self.decision.is_none() && now < self.gate.expires_at;
        (click.choice == Choice::Open && here && open && self.gate.is_for(&click.by)).then_some(form)
    }

    /// Expires the gate if it is undecided at its end. Returns the decision if it changed.
    pub fn expire(&mut self, now: Timestamp) -> Option<ApprovalDecision> {
        let over = self.decision.is_none() && now >= self.gate.expires_at;
        over.then(|| self.decision.insert(ApprovalDecision::Expired).clone())
    }

    /// True if the turn continues a call that its server has begun, for each decision.
    #[must_use]
    pub const fn continues(&self) -> bool {
        !self.gate.subject.is_approval()
    }

    /// True if the call with this hash may run, given the approvers that the rules name now.
    #[must_use]
    pub fn lets_run(&self, hash: &ArgumentsHash, approvers: &[String]) -> bool {
        matches!(self.decision, Some(ApprovalDecision::Approved { .. }))
            && self.gate.subject.is_approval()
            && self.gate.hash == *hash
            && self.gate.approvers == approvers
    }
}

/// A turn that waits for a decision, stored by the journal beside the turn. Its dialogue is stored under a separate
/// key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// The gate that it waits for.
    pub case: Case,
    /// The message that asks, once it is posted.
    #[serde(default)]
    pub posted: Option<MessageId>,
    /// The cost of the turn so far.
    pub effort: super::effort::Effort,
    /// True if a tool with side effects may already have run.
    #[serde(default)]
    pub acted: bool,
}

impl Parked {
    /// Returns the id under which the usage after this decision is charged. It is charged separately, because the
    /// turn's first reservation may have aged out of the window by then.
    #[must_use]
    pub fn part(&self) -> TurnId {
        let Gate { id, turn, .. } = &self.case.gate;
        TurnId::new(turn.door.clone(), format!("{}-{}", turn.id, &id.as_str()[..PART_DIGITS]))
    }
}

/// Returns the exact arguments of a call as shown to people. `None` if they are too long.
#[must_use]
pub fn arguments(arguments: &Map<String, Value>) -> Option<String> {
    let text = shown(arguments);
    (text.len() <= ARGUMENTS_MAX).then_some(text)
}

#[cfg(test)]
mod tests;
