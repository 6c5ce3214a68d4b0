//! The cost of a turn, and its outcome.

use serde::{Deserialize, Serialize};

use crate::answer_end::AnswerEnd;
use crate::completion::Usage;
use crate::ending::{Ending, OverLimit};
use crate::experiment::Trial;

/// The cost of finding an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Effort {
    /// The model row that answered. `None` if no model was asked.
    pub model: Option<String>,
    /// The tokens of all calls.
    pub usage: Usage,
    /// The prompt tokens added by tools, with their definitions and results. The bot pays for them, not the member.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tool_tokens: u64,
    /// The answer tokens of calls that broke off beyond the longest answer. The bot pays for them, not the member.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excess_tokens: u64,
    /// The cost of all calls whose rows have prices, in millionths of a dollar.
    #[serde(default)]
    pub micros: u64,
    /// The cost that tools paid, such as that of pictures, in millionths of a dollar. Limits and the ledger count it
    /// when it is paid, so it is not part of `micros`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paid_micros: u64,
    /// The tokens of calls whose rows have no prices.
    #[serde(default)]
    pub unpriced: u64,
    /// Milliseconds spent waiting for models and tools.
    pub waited_ms: u64,
    /// The turn's time, by phase.
    #[serde(default, skip_serializing_if = "Times::is_zero")]
    pub times: Times,
    /// True if part of the answer was shown while it was streaming.
    #[serde(default)]
    pub drafted: bool,
    /// The end of the last call.
    #[serde(default, skip_serializing_if = "AnswerEnd::is_whole")]
    pub end: AnswerEnd,
    /// The arm of the experiment that the turn is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The number of repairs that the reply needed.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub repairs: u32,
    /// Milliseconds until a model may be asked again, if none could answer. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_ms: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_none_of(number: &u32) -> bool {
    *number == 0
}

/// The time of a turn until its answer was known, by phase, in milliseconds. For a turn that waited for a decision,
/// the parts before and after are added; the wait is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// In its lane, behind other turns of the member.
    pub lane_ms: u64,
    /// Waiting for a permit to call a model.
    pub permit_ms: u64,
    /// Model calls, including failed ones and pauses between retries.
    pub model_ms: u64,
    /// Tool calls.
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
    /// Returns the tokens charged to the member who asked: all but those that tools added to prompts, and those beyond
    /// the longest answer.
    #[must_use]
    pub const fn of_member(&self) -> Usage {
        Usage {
            prompt: self.usage.prompt.saturating_sub(self.tool_tokens),
            completion: self.usage.completion.saturating_sub(self.excess_tokens),
            ..self.usage
        }
    }

    /// Returns the whole cost in millionths of a dollar, with that of tools.
    #[must_use]
    pub const fn all_micros(&self) -> u64 {
        self.micros.saturating_add(self.paid_micros)
    }

    /// Returns the whole cost in dollars. `None` if nothing had a price.
    #[must_use]
    pub fn dollars(&self) -> Option<f64> {
        let micros = self.all_micros();
        (micros > 0).then(|| dollars(micros))
    }

    /// Returns the difference to an earlier state.
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
            excess_tokens: self.excess_tokens.saturating_sub(earlier.excess_tokens),
            micros: self.micros.saturating_sub(earlier.micros),
            paid_micros: self.paid_micros.saturating_sub(earlier.paid_micros),
            unpriced: self.unpriced.saturating_sub(earlier.unpriced),
            waited_ms: self.waited_ms.saturating_sub(earlier.waited_ms),
            times: self.times,
            drafted: self.drafted && !earlier.drafted,
            end: self.end,
            trial: self.trial.clone(),
            repairs: self.repairs.saturating_sub(earlier.repairs),
            again_ms: self.again_ms,
        }
    }
}

/// Returns this number of millionths of a dollar in dollars.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "millionths of dollars are far below 2^52")]
pub fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The outcome of a turn, as counted by the metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A model's answer.
    Replied,
    /// A short hint without a model call.
    Hinted,
    /// An apology, with its reason.
    Apologised(Ending),
    /// A refusal because of this limit.
    Refused(OverLimit),
}

impl Outcome {
    /// True if the member got an answer.
    #[must_use]
    pub const fn answers(&self) -> bool {
        match self {
            Self::Replied | Self::Hinted => true,
            Self::Apologised(_) | Self::Refused(_) => false,
        }
    }
}
