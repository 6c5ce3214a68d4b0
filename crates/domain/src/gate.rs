//! Gates: a call of a tool that waits for the decision of a person, as a state machine that awaits nothing.
//!
//! A gate is bound to one call: its hash covers the server, the tool as it describes itself, and the arguments. It is decided once,
//! by the person who asked or, where a rule names approvers, by a holder of one of their roles and nobody else. What is undecided
//! when it expires counts as refused. A decision says that the call may run; that it runs once is the journal's to hold.

pub mod allowance;

mod shown;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use self::shown::shown;
use super::arguments_hash::ArgumentsHash;
use super::caller::{Callback, Caller};
use super::ids::{Door, MessageId, Person, Place, Timestamp, TurnId};
use super::locale::Locale;
use crate::hex::hex;

/// The most bytes of arguments that people are asked about, as they are shown.
pub const ARGUMENTS_MAX: usize = 32 * 1024;

/// The most gates of one person that are open at once.
pub const OWN_MAX: usize = 5;

/// The most gates that are open at once.
pub const OPEN_MAX: usize = 256;

/// The most that is kept of a turn while it waits for a decision, in bytes.
pub const PARKED_BYTES_MAX: usize = 256 * 1024;

/// The longest that a gate is open: a waiting turn is kept for a day.
pub const EXPIRY_MAX: Duration = Duration::from_secs(12 * 3_600);

/// How long an approver's word holds for further calls of the same.
pub const ALLOWED_FOR: Duration = crate::keys::ALLOWANCE_TTL;

/// Digits of a gate's id: 128 bits that nobody guesses.
const ID_DIGITS: usize = 32;

/// Digits of a gate's id that tell the parts of a turn apart.
const PART_DIGITS: usize = 8;

/// What the names of our buttons begin with.
const BUTTON: &str = "gate";

/// Names a gate; whoever does not see it cannot guess it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateId(String);

impl GateId {
    /// The id of a gate for this call of a turn. `rolls` are draws of chance; the rest keeps ids apart where chance is not.
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

    /// The id that a text is; none when it has not the form of one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (text.len() == ID_DIGITS && text.bytes().all(digit)).then(|| Self(text.to_owned()))
    }

    /// The digits.
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

/// A call that waits for a decision, and whose decision that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Its id.
    pub id: GateId,
    /// The turn that waits.
    pub turn: TurnId,
    /// Where it was asked, and is decided.
    pub place: Place,
    /// Who asked.
    pub requester: Person,
    /// The one who asked is a timer or a webhook, which no platform knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// The language of the question.
    #[serde(default)]
    pub locale: Option<String>,
    /// Ids of the roles whose holders decide; none leaves it to the requester.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// The name of the tool in calls.
    pub tool: String,
    /// What it is bound to.
    pub hash: ArgumentsHash,
    /// The arguments as people are shown them: JSON that reads as the call's own.
    pub arguments: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// From when on it counts as refused.
    pub expires_at: Timestamp,
}

impl Gate {
    /// Who asked, as platforms show people; what is no person by its plain name.
    #[must_use]
    pub fn asker(&self) -> String {
        let id = &self.requester.id;
        if self.unattended { format!("`{id}`") } else { format!("<@{id}>") }
    }

    /// The language of the question.
    #[must_use]
    pub fn locale(&self) -> Locale {
        Locale::of(self.locale.as_deref())
    }

    /// Whether the decision is this one's to make.
    #[must_use]
    pub fn is_for(&self, who: &Clicker) -> bool {
        match who {
            Clicker::Member(caller) if self.approvers.is_empty() => caller.person == self.requester,
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

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clicker {
    /// A member, as the platform vouches for them.
    Member(Caller),
    /// A program that was let in at this door: it speaks for this person, or without one for whoever asks there.
    Client(Door, Option<Person>),
}

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// This call may run.
    Once,
    /// It may, and the same call may for [`ALLOWED_FOR`] in this place.
    Hour,
    /// It may not.
    Deny,
}

impl Choice {
    /// Every choice, in the order in which people are shown them.
    pub const ALL: [Self; 3] = [Self::Once, Self::Hour, Self::Deny];

    /// The word in the names of buttons.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Hour => "hour",
            Self::Deny => "deny",
        }
    }

    /// The name of its button, at most 100 characters. It carries nothing but the gate and the choice.
    #[must_use]
    pub fn button(self, gate: &GateId) -> String {
        format!("{BUTTON}:{gate}:{}", self.as_str())
    }

    /// The gate and the choice of a button of ours; none for other buttons.
    #[must_use]
    pub fn of_button(name: &str) -> Option<(GateId, Self)> {
        let (gate, word) = name.strip_prefix(BUTTON)?.strip_prefix(':')?.split_once(':')?;
        let choice = Self::ALL.into_iter().find(|choice| choice.as_str() == word)?;
        Some((GateId::parse(gate)?, choice))
    }
}

/// Somebody decides about a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    /// The gate that they name.
    pub gate: GateId,
    /// What they choose.
    pub choice: Choice,
    /// Who they are.
    pub by: Clicker,
    /// Where they do it; none where the door has no places for that.
    pub place: Option<Place>,
    /// How they are answered; none where whoever asks waits for the outcome.
    pub callback: Option<Callback>,
}

impl Click {
    /// What tells a click from another.
    #[must_use]
    pub fn id(&self) -> Option<&MessageId> {
        self.callback.as_ref().map(|callback| &callback.id)
    }
}

/// What was decided about a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// The call may run.
    Approved {
        /// Who said so; none for a program.
        by: Option<Person>,
    },
    /// It may not.
    Denied {
        /// Who said so; none for a program.
        by: Option<Person>,
    },
    /// Nobody decided in time.
    Expired,
    /// Nobody could be asked.
    NotAsked,
    /// What was asked for was taken back, with everything about it.
    Withdrawn,
}

/// What was decided about a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    /// The call may run.
    Approved,
    /// It may not.
    Refused,
    /// No decision came in time.
    Expired,
}

impl Decision {
    /// The label in logs and records of calls.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Expired => "expired",
            Self::NotAsked => "not_asked",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Whose decision it was.
    #[must_use]
    pub const fn by(&self) -> Option<&Person> {
        match self {
            Self::Approved { by } | Self::Denied { by } => by.as_ref(),
            Self::Expired | Self::NotAsked | Self::Withdrawn => None,
        }
    }

    /// The same as clients that read along are told it.
    #[must_use]
    pub const fn told(&self) -> GateDecision {
        match self {
            Self::Approved { .. } => GateDecision::Approved,
            Self::Denied { .. } | Self::NotAsked | Self::Withdrawn => GateDecision::Refused,
            Self::Expired => GateDecision::Expired,
        }
    }
}

/// Why a click decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such gate, or not any more.
    Unknown,
    /// It is decided elsewhere.
    WrongPlace,
    /// It is not theirs to decide.
    NotTheirs,
    /// It was decided before.
    Decided,
    /// It expired.
    Expired,
    /// The decision could not be written down.
    NotRecorded,
}

impl Refusal {
    /// The label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::WrongPlace => "wrong_place",
            Self::NotTheirs => "not_theirs",
            Self::Decided => "decided",
            Self::Expired => "expired",
            Self::NotRecorded => "not_recorded",
        }
    }
}

/// A gate, and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The gate.
    pub gate: Gate,
    /// The decision; none while it is open.
    #[serde(default)]
    pub decision: Option<Decision>,
}

impl Case {
    /// An open gate.
    #[must_use]
    pub const fn open(gate: Gate) -> Self {
        Self { gate, decision: None }
    }

    /// Somebody decides. Nothing changes when the click is refused.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn click(&mut self, click: &Click, now: Timestamp) -> Result<Decision, Refusal> {
        let gate = &self.gate;
        if click.gate != gate.id {
            return Err(Refusal::Unknown);
        }
        if click.place.as_ref().is_some_and(|place| *place != gate.place) {
            return Err(Refusal::WrongPlace);
        }
        if !gate.is_for(&click.by) {
            return Err(Refusal::NotTheirs);
        }
        if self.decision.is_some() {
            return Err(Refusal::Decided);
        }
        if now >= gate.expires_at {
            return Err(Refusal::Expired);
        }
        let by = match &click.by {
            Clicker::Member(caller) => Some(caller.person.clone()),
            Clicker::Client(_, person) => person.clone(),
        };
        let decision = match click.choice {
            Choice::Once | Choice::Hour => Decision::Approved { by },
            Choice::Deny => Decision::Denied { by },
        };
        self.decision = Some(decision.clone());
        Ok(decision)
    }

    /// Time has passed: what is undecided by its end counts as refused.
    pub fn expire(&mut self, now: Timestamp) -> Option<Decision> {
        let over = self.decision.is_none() && now >= self.gate.expires_at;
        over.then(|| self.decision.insert(Decision::Expired).clone())
    }

    /// Whether the call of this hash may run, where rules name these approvers now.
    #[must_use]
    pub fn lets_run(&self, hash: &ArgumentsHash, approvers: &[String]) -> bool {
        matches!(self.decision, Some(Decision::Approved { .. }))
            && self.gate.hash == *hash
            && self.gate.approvers == approvers
    }
}

/// A turn that waits for a decision, as the journal keeps it beside the turn. What was said so far stands under a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// What it waits for.
    pub case: Case,
    /// The message that asks, once it stands there.
    #[serde(default)]
    pub posted: Option<MessageId>,
    /// What the turn took so far.
    pub effort: super::effort::Effort,
    /// A tool that changes something may have run for it before.
    #[serde(default)]
    pub acted: bool,
}

impl Parked {
    /// Names what the turn takes from this decision on: the window of its member counts that by itself, because what was reserved when
    /// the turn was asked may have aged out by then.
    #[must_use]
    pub fn part(&self) -> TurnId {
        let Gate { id, turn, .. } = &self.case.gate;
        TurnId::new(turn.door.clone(), format!("{}-{}", turn.id, &id.as_str()[..PART_DIGITS]))
    }
}

/// The exact arguments of a call as people are shown them; none when they are too long to be shown.
#[must_use]
pub fn arguments(arguments: &Map<String, Value>) -> Option<String> {
    let text = shown(arguments);
    (text.len() <= ARGUMENTS_MAX).then_some(text)
}

#[cfg(test)]
mod tests;
