//! What a turn took, and how it ended.

use serde::{Deserialize, Serialize};

use crate::answer_end::AnswerEnd;
use crate::completion::Usage;
use crate::ending::{Ending, OverLimit};

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
