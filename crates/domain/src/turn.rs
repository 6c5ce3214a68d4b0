//! A turn: one message to answer, as plain data that can be stored and resumed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attachment::{self, Attachment};
use super::caller::Operators;
use super::delivery::RefusalRecord;
pub use super::effort::{Effort, Outcome, Times};
use super::ending::Ending;
use super::gate::Parked;
use super::given::Given;
pub use super::history::Exchange;
use super::ids::{Door, MessageId, Person, Place, Timestamp, TurnId};
use super::locale::Locale;
use super::outgoing::{Outgoing, Part};
use super::people::Linked;
use super::planted::Defect;
pub use super::policy::{GatePolicy, HistoryScope, LaneRule, Lasts, Policy, ReplyContract, Trigger};
use super::quoted::Quoted;

/// One accepted trigger and all data needed to answer it, also after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The id, which is the key for deduplication and for the platform's nonce.
    pub id: TurnId,
    /// The place of the question and of the answer.
    pub place: Place,
    /// The parent place, whose settings the place inherits.
    pub parent: Option<Place>,
    /// The community; `None` in direct conversations.
    pub guild: Option<String>,
    /// The account that asked.
    pub person: Person,
    /// All accounts of the person who asked, as they were linked when the message arrived.
    #[serde(default, skip_serializing_if = "Linked::is_empty")]
    pub linked: Linked,
    /// The display name of the person.
    pub name: String,
    /// Ids of the person's roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The reason for an answer.
    pub trigger: Trigger,
    /// The question, without mentions of the bot, hidden characters or the bot's own notes, and with folded white
    /// space.
    pub text: String,
    /// The message that it replies to.
    pub quoted: Option<Quoted>,
    /// The attached files.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// The platform's language tag, as set for the place or the author.
    #[serde(default)]
    pub locale: Option<String>,
    /// The time of the question.
    pub at: Timestamp,
    /// The answer policy of the door.
    pub policy: Policy,
    /// The conversation supplied with the request, which replaces the stored history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

impl Turn {
    /// True if the model gets tools: the policy allows them and the turn is not an interjection.
    #[must_use]
    pub const fn wants_tools(&self) -> bool {
        self.trigger.is_asked() && self.policy.tools
    }

    /// True if an operator asked, according to the door's operators. Always false for triggers without a message.
    #[must_use]
    pub fn is_of_operator(&self, operators: Option<Operators<'_>>) -> bool {
        self.trigger.has_message() && operators.is_some_and(|all| all.include_one(&self.person, &self.roles))
    }

    /// Returns an apology with this sentence and this reason.
    #[must_use]
    pub fn apology(&self, sentence: &str, why: Ending) -> Answer {
        Answer {
            outgoing: self.reply_with(sentence),
            exchange: None,
            outcome: Outcome::Apologised(why),
            effort: Effort::default(),
        }
    }

    /// Returns the language of the bot's own messages about this turn.
    #[must_use]
    pub fn locale(&self) -> Locale {
        Locale::of(self.locale.as_deref())
    }

    /// Returns the question as history stores it: the text and the names of files, never their content.
    #[must_use]
    pub fn asked(&self) -> String {
        attachment::remembered(&self.text, &self.attachments)
    }

    /// Returns a text reply to the message that triggered this turn. For triggers without a message, it is a plain
    /// post.
    #[must_use]
    pub fn reply_with(&self, text: &str) -> Outgoing {
        let text = text.to_owned();
        let reply_to = self.trigger.has_message().then(|| self.id.trigger());
        let misled = || Place::new(self.place.door.clone(), self.person.id.clone());
        Outgoing {
            place: if Defect::OtherPlace.is_planted() { misled() } else { self.place.clone() },
            reply_to,
            parts: vec![Part::Text { text }],
            apology: false,
            spent: None,
            private: false,
        }
    }

    /// Returns the files that the prompt contains: those of the question, then those of a quoted message of another
    /// author. Files of a message that is still to be fetched are unknown.
    pub fn files(&self) -> impl Iterator<Item = &Attachment> {
        let seen = self.quoted.iter().filter_map(|quoted| quoted.seen.as_ref()).filter(|seen| !seen.ours);
        self.attachments.iter().chain(seen.flat_map(|seen| &seen.attachments))
    }

    /// Returns the part of the bot's users that this turn counts to where they share a bound.
    #[must_use]
    pub fn sharer(&self) -> Sharer<'_> {
        match &self.guild {
            Some(guild) => Sharer::Community(&self.id.door, guild),
            None => Sharer::Person(&self.person),
        }
    }

    /// Returns the lane of this turn.
    #[must_use]
    pub fn lane(&self) -> Lane {
        if self.trigger.is_asked() { Lane::Of(self.person.clone()) } else { Lane::Unasked }
    }
}

/// A part of the bot's users that shares a bound with the others: a community, or a person outside of communities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharer<'a> {
    /// A community, at its door.
    Community(&'a Door, &'a str),
    /// A person in a direct conversation or a session.
    Person(&'a Person),
}

/// A lane: within one place, the turns of one lane run one after another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lane {
    /// The turns of one person.
    Of(Person),
    /// Interjections. Questions never queue behind them.
    Unasked,
}

/// An answer to deliver: the post, and the exchange to remember.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The post.
    pub outgoing: Outgoing,
    /// The exchange to add to the history; `None` for hints and apologies.
    pub exchange: Option<Exchange>,
    /// The outcome of the turn.
    pub outcome: Outcome,
    /// The effort spent on it.
    #[serde(default)]
    pub effort: Effort,
}

/// The state of a turn, as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "it lives only while a record is written or read")]
pub enum Custody {
    /// Accepted and not answered yet.
    Open(OpenTurn),
    /// Answered, cancelled or given up. The record is kept for a while, so that the same message does not trigger a
    /// second turn.
    Closed(ClosedTurn),
}

/// A turn that is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// The turn.
    pub turn: Arc<Turn>,
    /// The answer, from the time it is known until it is posted.
    pub answer: Option<Answer>,
    /// True if a tool with side effects may have run. Such a turn must not start from the beginning again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acted: bool,
    /// The tool call that awaits the decision of a person, or that continues with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Box<Parked>>,
    /// The parts of the answer that the platform refused so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusalRecord>,
}

impl OpenTurn {
    /// Creates an accepted turn, with its answer if it is known.
    #[must_use]
    pub const fn new(turn: Arc<Turn>, answer: Option<Answer>) -> Self {
        Self { turn, answer, acted: false, parked: None, refused: None }
    }
}

/// A closed turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedTurn {
    /// The ids of the bot's messages that answer it.
    pub posted: Vec<MessageId>,
    /// True if these messages are not replies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}
