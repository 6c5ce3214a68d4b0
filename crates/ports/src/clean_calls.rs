//! Model calls that tools make for a turn.

use async_trait::async_trait;

use domain::model::Row;
use domain::tool::OnBehalf;

/// Model calls as part of a tool call: within the turn's rights, limits and deadline, and charged to its account.
#[async_trait]
pub trait CleanCalls: Send + Sync {
    /// Returns the rows that may be asked for this caller, the default first.
    ///
    /// # Errors
    /// The reason why they are unknown, as text for the calling model.
    async fn rows(&self, asked: &OnBehalf) -> Result<Vec<Row>, String>;

    /// Returns a model's answer to this question, without any other context. Dropping the future cancels the call;
    /// tokens used by then are charged.
    ///
    /// # Errors
    /// The reason why there is no answer, as text for the calling model.
    async fn ask(&self, asked: &OnBehalf, question: CleanQuestion) -> Result<String, String>;
}

/// A question without the conversation that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanQuestion {
    /// The key of the row; no fallback is used.
    pub row: String,
    /// The complete text for the model.
    pub text: String,
    /// The names of the tools that it may call.
    pub tools: Vec<String>,
}
