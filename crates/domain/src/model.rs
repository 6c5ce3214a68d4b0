//! A model row: the facts about a configured model that all crates may use. Its address and key stay at the edge.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::completion::{Accepts, Usage};

/// One configured model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the model that stands by itself")]
pub struct Row {
    /// The name used in configuration and by people.
    pub key: String,
    /// The operator's description for people who choose a row: one line of at most [`DESCRIPTION_CHARS`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The timeout of a single call.
    pub timeout: Duration,
    /// The fallback rows, in order.
    pub fallback: Vec<String>,
    /// True if its answers are streamed.
    pub stream: bool,
    /// The default temperature. `None`: the provider's default.
    pub temperature: Option<f64>,
    /// True if no temperature is ever sent, even if a request names one, because the provider refuses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_temperature: bool,
    /// True if requests may name a reasoning effort.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning_effort: bool,
    /// The most tokens of one answer. `None`: the provider decides.
    pub max_tokens: Option<u32>,
    /// Maximum number of history messages in a prompt. `None`: as in the history settings.
    pub max_context: Option<usize>,
    /// The way in which tools are offered.
    pub tools: ToolMode,
    /// True if one call may combine tools and structured output, with the whole history.
    pub schema_with_tools: bool,
    /// The way in which a typed answer is given while tools are offered.
    #[serde(default, skip_serializing_if = "ReplyBy::is_auto")]
    pub reply_by: ReplyBy,
    /// The number of history messages in a call with tools, if it cannot combine both.
    pub tool_history: usize,
    /// Maximum number of tools in one call; others are found by the search tool.
    #[serde(default = "max_tools")]
    pub max_tools: usize,
    /// True if it accepts pictures.
    pub vision: bool,
    /// True if it accepts PDF files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pdf: bool,
    /// True if its provider runs remote tool servers itself.
    pub native_mcp: bool,
    /// True if its provider searches the web itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub native_web_search: bool,
    /// The embedding model at the same endpoint. `None`: no embeddings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<String>,
    /// The price of embeddings in dollars per million tokens. `None` if not configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings_price: Option<f64>,
    /// Prices, if configured.
    pub price: Option<Price>,
}

/// The longest description of a row, in characters.
pub const DESCRIPTION_CHARS: usize = 200;

/// The default number of tools in one call.
pub const MAX_TOOLS: usize = 40;

const fn max_tools() -> usize {
    MAX_TOOLS
}

impl Row {
    /// Creates a row with this key, default values and no optional abilities.
    #[must_use]
    pub fn new(key: impl Into<String>, timeout: Duration) -> Self {
        Self {
            key: key.into(),
            description: None,
            timeout,
            fallback: Vec::new(),
            stream: true,
            temperature: None,
            reasoning_effort: false,
            fixed_temperature: false,
            max_tokens: None,
            max_context: None,
            tools: ToolMode::Native,
            schema_with_tools: false,
            reply_by: ReplyBy::Auto,
            tool_history: 0,
            max_tools: MAX_TOOLS,
            vision: false,
            pdf: false,
            native_mcp: false,
            native_web_search: false,
            embeddings: None,
            embeddings_price: None,
            price: None,
        }
    }

    /// Returns the parts beside text that it accepts.
    #[must_use]
    pub const fn accepts(&self) -> Accepts {
        Accepts { pictures: self.vision, pdf: self.pdf }
    }

    /// True if one call offers tools and asks for a typed answer without structured output: the answer is the call of a
    /// function beside native tools, or text if the tools are in the prompt.
    #[must_use]
    pub fn replies_by_function(&self) -> bool {
        let wanted = match self.reply_by {
            ReplyBy::Auto => !self.schema_with_tools,
            ReplyBy::Schema => false,
            ReplyBy::Tool => true,
        };
        wanted && self.tools != ToolMode::Off
    }
}

/// The way in which a row gives a typed answer while tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyBy {
    /// In one call: by structured output if the row combines it with tools, otherwise by a function.
    #[default]
    Auto,
    /// By structured output: in the same call if the row combines it with tools, otherwise in a further call.
    Schema,
    /// By a function whose arguments are the answer, in the same call.
    Tool,
}

impl ReplyBy {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Schema, Self::Tool];

    /// Returns the word used in `models.json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Schema => "schema",
            Self::Tool => "tool",
        }
    }

    /// True if the row's abilities decide.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The way in which tools are offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// In the request's native list of tools.
    Native,
    /// Described in the prompt; a call is one JSON object.
    Prompt,
    /// Disabled.
    Off,
}

impl ToolMode {
    /// Returns the word used in `models.json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Prompt => "prompt",
            Self::Off => "off",
        }
    }
}

/// Prices in dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens served from the provider's cache.
    pub cached: f64,
}

impl Price {
    /// Creates the price of input-only tokens, such as those of embeddings.
    #[must_use]
    pub const fn of_input(dollars: f64) -> Self {
        Self { input: dollars, output: 0.0, cached: dollars }
    }

    /// Returns the cost of these tokens in dollars.
    #[must_use]
    pub fn dollars(&self, usage: Usage) -> f64 {
        self.exact_micros(usage) / 1e6
    }

    /// Returns the cost of these tokens in whole millionths of a dollar.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, also below zero")]
    pub fn micros(&self, usage: Usage) -> u64 {
        self.exact_micros(usage).round() as u64
    }

    /// Dollars per million tokens equal millionths of a dollar per token.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    fn exact_micros(&self, usage: Usage) -> f64 {
        let fresh = usage.prompt.saturating_sub(usage.cached) as f64;
        fresh * self.input + usage.cached as f64 * self.cached + usage.completion as f64 * self.output
    }
}
