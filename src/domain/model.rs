//! A model row: what the rest of the program may know of a configured model. Its address and key stay at the edge.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One configured model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name that configuration and people use.
    pub key: String,
    /// The longest a single call may take.
    pub timeout: Duration,
    /// Rows that are tried next when this one fails, in order.
    pub fallback: Vec<String>,
    /// Its answers are streamed.
    pub stream: bool,
    /// The sampling temperature; none sends none.
    pub temperature: Option<f64>,
    /// The most history messages that go into its prompt; none leaves it to the history settings.
    pub max_context: Option<usize>,
    /// Prices, when configured.
    pub price: Option<Price>,
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
