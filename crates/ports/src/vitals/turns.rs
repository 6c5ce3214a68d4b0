//! Turns as reported on the pages: timing and cost.

use serde::{Deserialize, Serialize};

use super::{as_rfc3339, of_rfc3339};
use domain::experiment::Trial;
use domain::ids::Timestamp;

/// The timelines of recent turns, spending, and the use of each bound.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Turns {
    /// Turns accepted since the start of the process.
    pub accepted: u64,
    /// The recent turns, newest first.
    #[serde(rename = "turns")]
    pub newest: Vec<TurnTimes>,
    /// Spending since the start of the process, by model row.
    pub spent: Vec<Spend>,
    /// Today's sums from the usage ledger. `None` until they were read.
    pub today: Option<Today>,
    /// The bounds and their use.
    pub limits: Vec<Limit>,
}

/// The share of its member's limits that a turn uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The tokens estimated when the limits were checked.
    pub expected: u64,
    /// The tokens charged. `None` until known.
    pub tokens: Option<u64>,
    /// The messages charged: 1, or 0 if it was refused or withdrawn.
    pub messages: u32,
    /// The member's messages per window.
    pub of_messages: u32,
    /// The member's tokens per window.
    pub of_tokens: u64,
    /// True if it is counted but never refused.
    pub exempt: bool,
}

/// The timeline of one turn. Times are milliseconds since it was accepted. Fields named after a phase are the
/// duration of that phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnTimes {
    /// Its number in the order of acceptance in this process, from 1.
    pub number: u64,
    /// Its door.
    pub door: String,
    /// The id of the message that it answers. `None` after a member ran `/forget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The place: door and id. `None` after a member ran `/forget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The member's id, with the door. `None` after a member ran `/forget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The trigger.
    pub trigger: String,
    /// The time of acceptance.
    #[serde(serialize_with = "as_rfc3339", deserialize_with = "of_rfc3339")]
    pub at: Timestamp,
    /// The time since then.
    pub age_ms: u64,
    /// `open`, `replied`, `hinted`, `apologised`, `failed` or `cancelled`.
    pub outcome: String,
    /// The reason, if it is not a plain answer.
    pub reason: Option<String>,
    /// Its share of the member's limits. `None` before the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// The start in its lane.
    pub started_ms: Option<u64>,
    /// The time when the answer was known.
    pub answered_ms: Option<u64>,
    /// The time when the first part of the answer was visible.
    pub visible_ms: Option<u64>,
    /// The time when the answer was posted completely, or the turn ended without one.
    pub ended_ms: Option<u64>,
    /// The wait in its lane. This and the next fields are known with the answer.
    pub lane_ms: Option<u64>,
    /// The wait for model permits.
    pub permit_ms: Option<u64>,
    /// The time of model calls.
    pub model_ms: Option<u64>,
    /// The time of tool calls.
    pub tools_ms: Option<u64>,
    /// The time from knowing the answer until it was posted completely.
    pub post_ms: Option<u64>,
    /// The model row that answered.
    pub model: Option<String>,
    /// The experiment and the arm that the turn is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The cost in dollars of all model calls and tools, with the answer. `None` if nothing had a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars: Option<f64>,
    /// Model and tool calls, in order.
    pub steps: Vec<Step>,
    /// The same moments with a finer unit, and those between them. Empty in records of earlier versions.
    #[serde(default)]
    pub us: Moments,
    /// True for a turn of an earlier process, which had its own numbering.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
}

/// The moments of a turn, in microseconds since it was accepted. `None`: not reached, or not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moments {
    /// The time from its door through the gateway, until the journal accepted the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<u64>,
    /// The request to the limits of its member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    /// The start in its lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The arrival of its answer at the journal, which charges it to the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged: Option<u64>,
    /// The time when the answer was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// The end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

/// A filter for turns. Absent fields match all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct WantedTurns {
    /// Maximum number of turns, newest first.
    pub limit: Option<usize>,
    /// The id of a channel, with or without its door.
    pub place: Option<String>,
    /// The id of a member, with or without a door.
    pub member: Option<String>,
    /// The id of a message.
    pub message: Option<String>,
    /// The id of a channel, a member or a message.
    pub id: Option<String>,
    /// The outcome: `open`, `replied`, `hinted`, `refused`, `dropped`, `apologised`, `failed` or `cancelled`.
    pub outcome: Option<String>,
}

impl WantedTurns {
    /// True if the turn matches.
    #[must_use]
    pub fn fits(&self, turn: &TurnTimes) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            let bare = |id: &str| id.split_once(':').map(|(_, id)| id.to_owned());
            let named = |wanted: &String| {
                found.is_some_and(|found| found == wanted || bare(found).is_some_and(|found| found == *wanted))
            };
            wanted.as_ref().filter(|wanted| !wanted.is_empty()).is_none_or(named)
        };
        let (place, member, message) = (turn.place.as_deref(), turn.member.as_deref(), turn.message.as_deref());
        let any = [place, member, message].into_iter().any(|found| is(&self.id, found));
        any && is(&self.place, place)
            && is(&self.member, member)
            && is(&self.message, message)
            && is(&self.outcome, Some(&turn.outcome))
    }
}

/// One call of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `model`, `tool`, or `gate` for a person's decision.
    pub kind: String,
    /// The model row or the tool.
    pub name: String,
    /// The start.
    pub from_ms: u64,
    /// The end.
    pub to_ms: Option<u64>,
    /// The start in microseconds. `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_us: Option<u64>,
    /// The end in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_us: Option<u64>,
    /// The label of its failure, if it failed.
    pub failed: Option<String>,
    /// The cost of a completed model call, or of a tool that paid for its work. `None` for other tools, failed model
    /// calls and running calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<StepCost>,
}

/// The cost of one model call; of a tool call, dollars only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Cached tokens among them.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Dollars. `None` if the row has no prices.
    pub dollars: Option<f64>,
}

/// The usage of one model row.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Spend {
    /// The row.
    pub model: String,
    /// Completed calls.
    pub calls: u64,
    /// Failed calls among them.
    pub failed: u64,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Cached tokens among them.
    pub cached_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Dollars. `None` if the row has no prices.
    pub dollars: Option<f64>,
}

/// The sums of one day from the usage ledger, over all members, processes and restarts. It names no members.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Today {
    /// The day, in UTC.
    pub day: String,
    /// Members who asked.
    pub members: u64,
    /// Messages for which a model was asked.
    pub messages: u64,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Cached tokens among them.
    pub cached_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Tokens of models without prices, excluded from the cost.
    pub unpriced_tokens: u64,
    /// Dollars. `None` if nothing had a price.
    pub dollars: Option<f64>,
}

/// A bound and its use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The name of the bound.
    pub name: String,
    /// The current use.
    pub used: u64,
    /// The maximum.
    pub max: u64,
}
