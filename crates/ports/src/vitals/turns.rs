//! What is told about turns: where their time went, and what they cost.

use serde::{Deserialize, Serialize};

use super::{as_rfc3339, of_rfc3339};
use domain::ids::Timestamp;

/// The time lines of the last turns, what was spent, and how much of each bound is in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turns {
    /// Turns accepted since the start of the process.
    pub accepted: u64,
    /// The newest of them, the newest first.
    #[serde(rename = "turns")]
    pub newest: Vec<TurnTimes>,
    /// What was spent since the start of the process, by model row.
    pub spent: Vec<Spend>,
    /// What the usage ledger says of today; none until it was read.
    pub today: Option<Today>,
    /// Bounds and how much of each is in use.
    pub limits: Vec<Limit>,
}

/// What a turn takes of the limits of its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Tokens that it was expected to take when the limits were asked.
    pub expected: u64,
    /// Tokens that it counts; none while that is not known.
    pub tokens: Option<u64>,
    /// Messages that it counts: one, or zero when it was refused or taken back.
    pub messages: u32,
    /// Messages that its member has in a window.
    pub of_messages: u32,
    /// Tokens that its member has in a window.
    pub of_tokens: u64,
    /// It is counted and never refused.
    pub exempt: bool,
}

/// The time line of one turn. Moments are milliseconds since it was accepted; those whose names begin with a part of the turn are how
/// long that part took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnTimes {
    /// Its place in the order of acceptance in this process, from one.
    pub number: u64,
    /// The door it came through.
    pub door: String,
    /// The message that it answers, as its door numbers it; none where a member wished to be forgotten since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where it was asked: door and id; none where a member wished to be forgotten since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The id of its member, with the door; none where a member wished to be forgotten since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Why it is answered.
    pub trigger: String,
    /// When it was accepted.
    #[serde(serialize_with = "as_rfc3339", deserialize_with = "of_rfc3339")]
    pub at: Timestamp,
    /// How long ago that is.
    pub age_ms: u64,
    /// `open`, `replied`, `hinted`, `apologised`, `failed` or `cancelled`.
    pub outcome: String,
    /// Why, where it is not a plain answer.
    pub reason: Option<String>,
    /// What it took of the limits of its member; none before they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    /// When its lane let it begin.
    pub started_ms: Option<u64>,
    /// When its answer was known.
    pub answered_ms: Option<u64>,
    /// When the first part of the answer could be seen.
    pub visible_ms: Option<u64>,
    /// When all of the answer was posted, or the turn ended without one.
    pub ended_ms: Option<u64>,
    /// How long it waited in its lane; this and the next ones are known with the answer.
    pub lane_ms: Option<u64>,
    /// How long it waited for permits to ask models.
    pub permit_ms: Option<u64>,
    /// How long it was with models.
    pub model_ms: Option<u64>,
    /// How long it was with tools.
    pub tools_ms: Option<u64>,
    /// How long its answer was known before all of it was posted.
    pub post_ms: Option<u64>,
    /// The model row that answered.
    pub model: Option<String>,
    /// Models asked and tools run, in order.
    pub steps: Vec<Step>,
    /// It is of an earlier life of the program, which numbered its turns by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
}

/// Which turns are asked for; absent takes all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct WantedTurns {
    /// The number of turns, the newest.
    pub limit: Option<usize>,
    /// The id of a channel, with or without its door.
    pub place: Option<String>,
    /// The id of a member, with or without a door.
    pub member: Option<String>,
    /// The id of a message.
    pub message: Option<String>,
    /// The id of a channel, a member or a message.
    pub id: Option<String>,
    /// How it ended: `open`, `replied`, `hinted`, `refused`, `dropped`, `apologised`, `failed` or `cancelled`.
    pub outcome: Option<String>,
}

impl WantedTurns {
    /// True if the turn is one of those that are asked for.
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
    /// `model`, `tool`, or `gate` for the decision of a person.
    pub kind: String,
    /// The model row or the tool.
    pub name: String,
    /// When it began.
    pub from_ms: u64,
    /// When it ended.
    pub to_ms: Option<u64>,
    /// The label of its failure, if it failed.
    pub failed: Option<String>,
    /// Tokens of a model that went in and came out, and dollars where its row has prices; none for a tool, a failure, and while it
    /// runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<StepCost>,
}

/// What one call of a model took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Tokens that went in.
    pub prompt_tokens: u64,
    /// Tokens that came out.
    pub completion_tokens: u64,
    /// Dollars; none when the row has no prices.
    pub dollars: Option<f64>,
}

/// What one model row was used for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Spend {
    /// The row.
    pub model: String,
    /// Calls that ended.
    pub calls: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Tokens that went in.
    pub prompt_tokens: u64,
    /// Those of them that the provider had cached.
    pub cached_tokens: u64,
    /// Tokens that came out.
    pub completion_tokens: u64,
    /// Dollars; none when the row has no prices.
    pub dollars: Option<f64>,
}

/// What the usage ledger says of one day: everybody, all processes and earlier lives together. It names nobody.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Today {
    /// The day, in UTC.
    pub day: String,
    /// Members who asked something.
    pub members: u64,
    /// Messages that a model was asked about.
    pub messages: u64,
    /// Tokens that went in.
    pub prompt_tokens: u64,
    /// Those of them that the provider had cached.
    pub cached_tokens: u64,
    /// Tokens that came out.
    pub completion_tokens: u64,
    /// Tokens of models without prices, which are not in the cost.
    pub unpriced_tokens: u64,
    /// Dollars; none when nothing had a price.
    pub dollars: Option<f64>,
}

/// A bound and how much of it is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// What is bounded.
    pub name: String,
    /// How much is in use now.
    pub used: u64,
    /// How much there is.
    pub max: u64,
}
