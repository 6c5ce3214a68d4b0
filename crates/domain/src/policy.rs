//! Triggers and policies: the reason for an answer, and the door's requirements for it.

use serde::{Deserialize, Serialize};

use crate::lineage::Lineage;
use crate::preferences::Preferences;

/// The reason for an answer. The name is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A reply to one of the bot's messages.
    Reply,
    /// A mention of the bot.
    Mention,
    /// One of the bot's configured names.
    Alias,
    /// A direct message.
    Direct,
    /// A random draw: the bot joins in without being addressed.
    Interjection,
    /// A timer of the operator.
    Timer,
    /// A signed request from another program.
    Webhook,
}

impl Trigger {
    /// Returns the label for logs and metrics.
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

    /// True if the trigger is a person's message to the bot: the answer replies to it, and that person can be asked for
    /// approval of tool calls.
    #[must_use]
    pub const fn has_message(self) -> bool {
        match self {
            Self::Reply | Self::Mention | Self::Alias | Self::Direct => true,
            Self::Interjection | Self::Timer | Self::Webhook => false,
        }
    }

    /// True if a person's words triggered it, so the place has a person to relate it to.
    #[must_use]
    pub const fn has_person(self) -> bool {
        match self {
            Self::Reply | Self::Mention | Self::Alias | Self::Direct | Self::Interjection => true,
            Self::Timer | Self::Webhook => false,
        }
    }

    /// True if the answer was requested: the requester is told if there is none, and breaches of limits have
    /// consequences.
    #[must_use]
    pub const fn is_asked(self) -> bool {
        match self {
            Self::Reply | Self::Mention | Self::Alias | Self::Direct | Self::Timer | Self::Webhook => true,
            Self::Interjection => false,
        }
    }
}

/// The answer policy of a door. Doors differ only in this data; no code checks the door of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The form that the model is asked to answer in.
    pub reply: ReplyContract,
    /// The scope of the history.
    pub history: HistoryScope,
    /// The rule for a second turn in a busy lane.
    pub lane: LaneRule,
    /// The requested model row; `None` for the default row.
    pub model: Option<String>,
    /// The settings of the person in force for this turn.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub preferences: Box<Preferences>,
    /// The keys of the permitted rows, fallbacks included; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<String>,
    /// The requested profile of prompts; `None` for the prompts of the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// True if tools may be used.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub tools: bool,
    /// The rule for a tool call that requires approval.
    #[serde(default, skip_serializing_if = "GatePolicy::denies")]
    pub gates: GatePolicy,
    /// The validity of the question.
    #[serde(default, skip_serializing_if = "Lasts::is_always")]
    pub lasts: Lasts,
    /// The chain of servers that the question came through; `None` if it came from no other server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Box<Lineage>>,
    /// True if each question gets an answer, at least a refusal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers_each: bool,
    /// True if only the person who asks reads the place: a direct conversation with the bot, or a session of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// The policy of a door for members, unless its configuration differs.
impl Default for Policy {
    fn default() -> Self {
        Self {
            reply: ReplyContract::Typed,
            history: HistoryScope::PersonInPlace,
            lane: LaneRule::Queue,
            model: None,
            preferences: Box::default(),
            among: Vec::new(),
            profile: None,
            tools: true,
            gates: GatePolicy::Deny,
            lasts: Lasts::default(),
            lineage: None,
            answers_each: false,
            alone: false,
        }
    }
}

fn is_unset(preferences: &Preferences) -> bool {
    preferences.is_empty()
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_yes(value: &bool) -> bool {
    *value
}

/// The rule for a tool call that requires approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePolicy {
    /// It is refused, because this door offers no way to ask for approval.
    #[default]
    Deny,
    /// The approval request is posted here, and the turn is parked.
    Ask,
}

impl GatePolicy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    const fn denies(&self) -> bool {
        matches!(self, Self::Deny)
    }
}

/// The validity of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasts {
    /// No expiry.
    #[default]
    Always,
    /// Valid while a client reads the stream. Connections of an earlier run of the process do not count.
    WhileRead,
}

impl Lasts {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    const fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }
}

/// The form that the model is asked to answer in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyContract {
    /// A typed reply according to `response_schema.json`.
    Typed,
    /// Plain text.
    Plain,
    /// The text of the model without its thoughts, in the form that the request specified.
    Verbatim,
}

/// The scope of the history for the prompt and for the new exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryScope {
    /// The history of this person in this place.
    PersonInPlace,
    /// No history.
    Nothing,
    /// Only the conversation in the request; nothing is stored.
    Given,
    /// The person requested deletion of their data after this question: no history is used and nothing is stored, not
    /// even the ids of the messages that answer it.
    Forgotten,
}

/// The rule for a turn in a busy lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneRule {
    /// It is queued.
    Queue,
    /// It is refused with a notice.
    Refuse,
}
