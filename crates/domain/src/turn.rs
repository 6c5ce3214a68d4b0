//! A turn: one message that we owe an answer, as plain data that can be stored and taken up again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer_end::AnswerEnd;
use super::attachment;
use super::command::Operators;
use super::completion::Usage;
use super::delivery::Refusals;
use super::ending::{Ending, OverLimit};
use super::gate::Parked;
use super::given::Given;
use super::ids::{MessageId, Person, Place, Timestamp, TurnId};
use super::incoming::{Attachment, Quoted};
use super::lineage::Lineage;
use super::locale::Locale;
use super::outgoing::{Outgoing, Part};

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

/// Why a message is answered. The name is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A reply to one of our messages.
    Reply,
    /// A mention of us.
    Mention,
    /// One of our configured names.
    Alias,
    /// A direct message.
    Direct,
    /// Nothing but chance: nobody asked.
    Interjection,
    /// A timer of the operator's.
    Timer,
    /// A signed request of another program.
    Webhook,
}

impl Trigger {
    /// The label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Mention => "mention",
            Self::Alias => "alias",
            Self::Direct => "direct",
            Self::Interjection => "interjection",
            Self::Timer => "timer",
            Self::Webhook => "webhook",
        }
    }

    /// It is the message of a person: the answer replies to it, and that person can be asked about calls of tools.
    #[must_use]
    pub const fn has_message(self) -> bool {
        match self {
            Self::Reply | Self::Mention | Self::Alias | Self::Direct => true,
            Self::Interjection | Self::Timer | Self::Webhook => false,
        }
    }

    /// A person's words began it, so there is somebody whom its place knows.
    #[must_use]
    pub const fn has_person(self) -> bool {
        match self {
            Self::Reply | Self::Mention | Self::Alias | Self::Direct | Self::Interjection => true,
            Self::Timer | Self::Webhook => false,
        }
    }

    /// Somebody wants this answer: they are told when there will be none, and breaking a limit has consequences.
    #[must_use]
    pub const fn is_asked(self) -> bool {
        match self {
            Self::Reply | Self::Mention | Self::Alias | Self::Direct | Self::Timer | Self::Webhook => true,
            Self::Interjection => false,
        }
    }
}

/// What a door wants of an answer. Doors differ in this data only; no code asks which door a turn came through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The form that the model is asked for.
    pub reply: ReplyContract,
    /// What is remembered, and for whom.
    pub history: HistoryScope,
    /// What a second turn in a busy lane does.
    pub lane: LaneRule,
    /// The model row asked for; none means the default row.
    pub model: Option<String>,
    /// The keys of the rows that may answer, fallbacks included; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<String>,
    /// The profile of prompts asked for; none means what holds in the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Tools may be used.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tools: bool,
    /// What becomes of a call that a person has to approve.
    #[serde(default, skip_serializing_if = "GatePolicy::denies")]
    pub gates: GatePolicy,
    /// How long the question is worth an answer.
    #[serde(default, skip_serializing_if = "Lasts::is_always")]
    pub lasts: Lasts,
    /// The chain of servers that it stands in; none where no other server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Box<Lineage>>,
    /// Each question is answered, if only with a refusal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers_each: bool,
}

/// What a door of members wants, unless its row says otherwise.
impl Default for Policy {
    fn default() -> Self {
        Self {
            reply: ReplyContract::Typed,
            history: HistoryScope::PersonInPlace,
            lane: LaneRule::Queue,
            model: None,
            among: Vec::new(),
            profile: None,
            tools: true,
            gates: GatePolicy::Deny,
            lasts: Lasts::default(),
            lineage: None,
            answers_each: false,
        }
    }
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_yes(value: &bool) -> bool {
    *value
}

/// What becomes of a call that a person has to approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePolicy {
    /// Nobody can be asked at this door: it is refused.
    #[default]
    Deny,
    /// It is asked here, and the turn waits.
    Ask,
}

impl GatePolicy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    const fn denies(&self) -> bool {
        matches!(self, Self::Deny)
    }
}

/// How long a question is worth an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasts {
    /// Whenever it comes.
    #[default]
    Always,
    /// While somebody reads along: nobody who asked over a connection of an earlier life of the process does.
    WhileRead,
}

impl Lasts {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    const fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }
}

/// The form of the answer that the model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyContract {
    /// A typed reply after `response_schema.json`.
    Typed,
    /// Plain text, as it comes.
    Plain,
    /// What the model wrote, behind its thoughts, in the form that came with the question.
    Verbatim,
}

/// Whose history goes into the prompt and is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryScope {
    /// This person in this place.
    PersonInPlace,
    /// Nothing is remembered.
    Nothing,
    /// What came with the question is all that there is, and nothing is added to memory.
    Given,
    /// The person asked to be forgotten after they asked this: nothing is recalled, and nothing is kept of it, not even which
    /// message answered it.
    Forgotten,
}

/// What a turn does that finds its lane busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneRule {
    /// It waits for its turn.
    Queue,
    /// It is refused with a notice.
    Refuse,
}

/// What one answered turn adds to memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Who asked.
    pub person: Person,
    /// What was asked.
    pub asked: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// What we answered.
    pub answered: String,
    /// When we answered.
    pub answered_at: Timestamp,
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

/// What it took to find an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Effort {
    /// The model row that answered; none when no model was asked.
    pub model: Option<String>,
    /// The tokens of all calls.
    pub usage: Usage,
    /// The prompt tokens of them that tools added, with their definitions and results: the bot's expense, never a member's use.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_tokens: u64,
    /// What the calls cost in millionths of a dollar, as far as their rows have prices.
    #[serde(default)]
    pub micros: u64,
    /// The tokens of calls whose rows have no prices.
    #[serde(default)]
    pub unpriced: u64,
    /// Milliseconds spent waiting for models and tools.
    pub waited_ms: u64,
    /// Where the time of the turn went.
    #[serde(default, skip_serializing_if = "Times::is_zero")]
    pub times: Times,
    /// Some of it was shown while it was being found.
    #[serde(default)]
    pub drafted: bool,
    /// How the last call ended.
    #[serde(default, skip_serializing_if = "AnswerEnd::is_whole")]
    pub end: AnswerEnd,
    /// Milliseconds after which a model may be asked again, when none could answer; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_ms: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where the time of a turn went until its answer was known, in milliseconds. The parts of a turn that waited for a decision are
/// summed; the wait itself is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// In its lane, behind other turns of its member.
    pub lane_ms: u64,
    /// For permits to ask models.
    pub permit_ms: u64,
    /// For models, with calls that failed and pauses between tries.
    pub model_ms: u64,
    /// For tools.
    pub tools_ms: u64,
}

impl Times {
    /// True if no time was measured.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Effort {
    /// The tokens that count as use of the member who asked: all but those that tools added to prompts.
    #[must_use]
    pub const fn of_member(&self) -> Usage {
        Usage { prompt: self.usage.prompt.saturating_sub(self.tool_tokens), ..self.usage }
    }

    /// What was taken since it was this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let usage = Usage {
            prompt: self.usage.prompt.saturating_sub(earlier.usage.prompt),
            completion: self.usage.completion.saturating_sub(earlier.usage.completion),
            cached: self.usage.cached.saturating_sub(earlier.usage.cached),
            estimated: self.usage.estimated,
        };
        Self {
            model: self.model.clone().filter(|_| usage.total() > 0),
            usage,
            tool_tokens: self.tool_tokens.saturating_sub(earlier.tool_tokens),
            micros: self.micros.saturating_sub(earlier.micros),
            unpriced: self.unpriced.saturating_sub(earlier.unpriced),
            waited_ms: self.waited_ms.saturating_sub(earlier.waited_ms),
            times: self.times,
            drafted: self.drafted && !earlier.drafted,
            end: self.end,
            again_ms: self.again_ms,
        }
    }
}

/// How a turn ended, as the metrics count it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A real answer.
    Replied,
    /// A short hint that needed no model.
    Hinted,
    /// An apology, and why.
    Apologised(Ending),
    /// A word that there will be none because of this limit.
    Refused(OverLimit),
}

impl Outcome {
    /// There is an answer.
    #[must_use]
    pub const fn answers(&self) -> bool {
        match self {
            Self::Replied | Self::Hinted => true,
            Self::Apologised(_) | Self::Refused(_) => false,
        }
    }
}

/// Where a turn stands, as the journal stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "it lives only while a record is written or read")]
pub enum Custody {
    /// Accepted and not answered yet.
    Open {
        /// The turn.
        turn: Arc<Turn>,
        /// The answer, once it is known and while it is being posted.
        answer: Option<Answer>,
        /// A tool that changes something may have run for it: it must not be begun anew.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        acted: bool,
        /// A call of it waits for the decision of a person, or goes on with one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parked: Option<Box<Parked>>,
        /// What the platform refused of the answer so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Refusals>,
    },
    /// Answered, cancelled, or given up; kept for a while so that the same message never triggers twice.
    Closed {
        /// Our messages that answer it.
        posted: Vec<MessageId>,
        /// They reply to nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
}
