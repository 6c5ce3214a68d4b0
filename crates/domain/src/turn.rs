//! A turn: one message that we owe an answer, as plain data that can be stored and taken up again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attachment::{self, Attachment};
use super::caller::Operators;
use super::delivery::Refusals;
pub use super::effort::{Effort, Outcome, Times};
use super::ending::Ending;
use super::gate::Parked;
use super::given::Given;
pub use super::history::Exchange;
use super::ids::{MessageId, Person, Place, Timestamp, TurnId};
use super::locale::Locale;
use super::outgoing::{Outgoing, Part};
pub use super::policy::{GatePolicy, HistoryScope, LaneRule, Lasts, Policy, ReplyContract, Trigger};
use super::quoted::Quoted;

/// One accepted trigger and everything needed to answer it, also after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The key for dedupe and nonce.
    pub id: TurnId,
    /// Where it was asked and will be answered.
    pub place: Place,
    /// The place above it, whose settings it inherits.
    pub parent: Option<Place>,
    /// The community, when there is one.
    pub guild: Option<String>,
    /// Who asked.
    pub person: Person,
    /// The name others see.
    pub name: String,
    /// Ids of their roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Why we answer.
    pub trigger: Trigger,
    /// What was asked: mentions of us removed, white space folded, nothing hidden in it, none of our own notes.
    pub text: String,
    /// The message that it replies to.
    pub quoted: Option<Quoted>,
    /// The files that came with it.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// The platform's tag of the language that its place or its author prefers.
    #[serde(default)]
    pub locale: Option<String>,
    /// When it was asked.
    pub at: Timestamp,
    /// What the door wants of the answer.
    pub policy: Policy,
    /// The conversation that came with it, in place of what is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

impl Turn {
    /// Whether its model is told of tools: never where nobody asked.
    #[must_use]
    pub const fn wants_tools(&self) -> bool {
        self.trigger.is_asked() && self.policy.tools
    }

    /// True if an operator asked, by what its door says of operators. What has no author is asked by none of them.
    #[must_use]
    pub fn is_of_operator(&self, operators: Option<Operators<'_>>) -> bool {
        self.trigger.has_message() && operators.is_some_and(|all| all.include_one(&self.person, &self.roles))
    }

    /// The answer that says why there is no better one.
    #[must_use]
    pub fn apology(&self, sentence: &str, why: Ending) -> Answer {
        Answer {
            outgoing: self.reply_with(sentence),
            exchange: None,
            outcome: Outcome::Apologised(why),
            effort: Effort::default(),
        }
    }

    /// The language of what the bot says by itself about this turn.
    #[must_use]
    pub fn locale(&self) -> Locale {
        Locale::of(self.locale.as_deref())
    }

    /// What was asked, as it is remembered: the words and the names of files, never what is in them.
    #[must_use]
    pub fn asked(&self) -> String {
        attachment::remembered(&self.text, &self.attachments)
    }

    /// A text reply to this turn's trigger; a plain message when that is no message that somebody asked with.
    #[must_use]
    pub fn reply_with(&self, text: &str) -> Outgoing {
        let text = text.to_owned();
        let reply_to = self.trigger.has_message().then(|| self.id.trigger());
        Outgoing { place: self.place.clone(), reply_to, parts: vec![Part::Text { text }], apology: false, spent: None }
    }

    /// Whose turns this one waits for.
    #[must_use]
    pub fn lane(&self) -> Lane {
        if self.trigger.is_asked() { Lane::Of(self.person.clone()) } else { Lane::Unasked }
    }
}

/// Whose turns wait for each other in one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Those of one person.
    Of(Person),
    /// Those that nobody asked for: no question ever waits for them.
    Unasked,
}

/// An answer on its way out: what is posted, and the exchange that it completes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What is posted.
    pub outgoing: Outgoing,
    /// What it adds to memory; none for hints and apologies.
    pub exchange: Option<Exchange>,
    /// How the turn ended.
    pub outcome: Outcome,
    /// What it took to find it.
    #[serde(default)]
    pub effort: Effort,
}

/// Where a turn stands, as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "it lives only while a record is written or read")]
pub enum Custody {
    /// Accepted and not answered yet.
    Open(OpenTurn),
    /// Answered, cancelled, or given up; kept for a while so that the same message never triggers twice.
    Closed(ClosedTurn),
}

/// A turn that is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// The turn.
    pub turn: Arc<Turn>,
    /// The answer, once it is known and while it is being posted.
    pub answer: Option<Answer>,
    /// A tool that changes something may have run for it: it must not be begun anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acted: bool,
    /// A call of it waits for the decision of a person, or goes on with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Box<Parked>>,
    /// What the platform refused of the answer so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusals>,
}

impl OpenTurn {
    /// A turn that was accepted, perhaps with its answer.
    #[must_use]
    pub const fn new(turn: Arc<Turn>, answer: Option<Answer>) -> Self {
        Self { turn, answer, acted: false, parked: None, refused: None }
    }
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedTurn {
    /// Our messages that answer it.
    pub posted: Vec<MessageId>,
    /// They reply to nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}
