//! A model row: what the rest of the program may know of a configured model. Its address and key stay at the edge.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::completion::Usage;

/// One configured model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the model that stands by itself")]
pub struct Row {
    /// The name that configuration and people use.
    pub key: String,
    /// What the operator says of it, for people who choose a row: one line of at most [`DESCRIPTION_CHARS`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The longest a single call may take.
    pub timeout: Duration,
    /// Rows that are tried next when this one fails, in order.
    pub fallback: Vec<String>,
    /// Its answers are streamed.
    pub stream: bool,
    /// The sampling temperature where a request names none; none sends none of our own.
    pub temperature: Option<f64>,
    /// No temperature is ever sent, also none that a request names: the provider refuses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_temperature: bool,
    /// The most tokens of one answer; none leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Its prompts carry marks up to which the provider may cache them.
    pub cache_control: bool,
    /// The most history messages that go into its prompt; none leaves it to the history settings.
    pub max_context: Option<usize>,
    /// How it is offered tools.
    pub tools: ToolMode,
    /// It can be offered tools and asked for structured output in one call, with the whole history.
    pub schema_with_tools: bool,
    /// How many history messages go into a call that offers tools to a model that cannot do both.
    pub tool_history: usize,
    /// The most tools that one call offers; the others are found by a search.
    #[serde(default = "max_tools")]
    pub max_tools: usize,
    /// It sees pictures.
    pub vision: bool,
    /// Its provider runs remote tool servers itself.
    pub native_mcp: bool,
    /// The name of the model at the same endpoint that makes embeddings; none makes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<String>,
    /// Dollars for a million tokens that are made into embeddings; none when not configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings_price: Option<f64>,
    /// Prices, when configured.
    pub price: Option<Price>,
}

/// The most characters of a row's description that are kept.
pub const DESCRIPTION_CHARS: usize = 200;

/// The most tools that one call offers unless the row says otherwise.
pub const MAX_TOOLS: usize = 40;

const fn max_tools() -> usize {
    MAX_TOOLS
}

impl Row {
    /// A row of this key that says nothing else: whatever it does not say, it cannot do.
    #[must_use]
    pub fn new(key: impl Into<String>, timeout: Duration) -> Self {
        Self {
            key: key.into(),
            description: None,
            timeout,
            fallback: Vec::new(),
            stream: true,
            temperature: None,
            fixed_temperature: false,
            max_tokens: None,
            cache_control: false,
            max_context: None,
            tools: ToolMode::Native,
            schema_with_tools: false,
            tool_history: 0,
            max_tools: MAX_TOOLS,
            vision: false,
            native_mcp: false,
            embeddings: None,
            embeddings_price: None,
            price: None,
        }
    }
}

/// How a model is offered tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// In the request's own list of tools.
    Native,
    /// Described in the prompt, with one JSON object as the call.
    Prompt,
    /// Not at all.
    Off,
}

impl ToolMode {
    /// The word in `models.json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Prompt => "prompt",
            Self::Off => "off",
        }
    }
}

/// Prices in dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Tokens in.
    pub input: f64,
    /// Tokens out.
    pub output: f64,
    /// Tokens in that the provider had cached.
    pub cached: f64,
}

impl Price {
    /// Of tokens that only go in, such as those of embeddings.
    #[must_use]
    pub const fn of_input(dollars: f64) -> Self {
        Self { input: dollars, output: 0.0, cached: dollars }
    }

    /// What these tokens cost, in dollars.
    #[must_use]
    pub fn dollars(&self, usage: Usage) -> f64 {
        self.exact_micros(usage) / 1e6
    }

    /// What these tokens cost, in whole millionths of a dollar.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, also below zero")]
    pub fn micros(&self, usage: Usage) -> u64 {
        self.exact_micros(usage).round() as u64
    }

    /// A dollar for a million tokens is a millionth of a dollar for a token.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    fn exact_micros(&self, usage: Usage) -> f64 {
        let fresh = usage.prompt.saturating_sub(usage.cached) as f64;
        fresh * self.input + usage.cached as f64 * self.cached + usage.completion as f64 * self.output
    }
}
