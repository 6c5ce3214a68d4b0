//! Triggers and policies: why a message is answered, and what its door wants of the answer.

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;

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
