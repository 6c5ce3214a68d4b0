//! Models that tools have asked on behalf of a turn.

use async_trait::async_trait;

use domain::model::Row;
use domain::tool::OnBehalf;

/// Models that a call of a tool has asked as a part of its turn: within the turn's rights, limits and deadline, and on its account.
#[async_trait]
pub trait CleanCalls: Send + Sync {
    /// The rows that may be asked for whoever asked, the default one first.
    ///
    /// # Errors
    /// Why they are not known, in words for the model that called.
    async fn rows(&self, asked: &OnBehalf) -> Result<Vec<Row>, String>;

    /// What a model answers that knows nothing but this question. Dropping the future ends it; what it took by then is counted.
    ///
    /// # Errors
    /// Why there is no answer, in words for the model that called.
    async fn ask(&self, asked: &OnBehalf, question: CleanQuestion) -> Result<String, String>;
}

/// A question without the conversation that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanQuestion {
    /// The key of the row that is asked; no other answers in its place.
    pub row: String,
    /// All that the model is told.
    pub text: String,
    /// The names of the tools that it may call; empty offers none.
    pub tools: Vec<String>,
}
