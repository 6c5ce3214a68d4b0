//! The seam of a provider's wire: how a request is written, how an answer is read, how the pieces of a streamed one are put
//! together. What is above knows completions alone; what is below (connections, server-sent events, errors) knows no wire.
//!
//! To add a wire: a module beside [`super::chat`] that implements both traits, and the row of `models.json` that chooses it.

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;

use crate::domain::completion::{Completion, Request};
use crate::llm::account::Account;
use crate::ports::ModelError;

/// The library's client for one call.
pub type OpenAi = async_openai::Client<Account>;

/// What is particular to a model, as far as this call may use it.
pub struct Model<'a> {
    /// The name that its provider knows it by.
    pub name: &'a str,
    /// The sampling temperature; none sends none.
    pub temperature: Option<f64>,
    /// It takes the form of the answer as a schema.
    pub takes_form: bool,
    /// It sees pictures.
    pub sees: bool,
    /// The most tokens of an answer; none leaves it to the provider.
    pub max_tokens: Option<TokenLimit>,
    /// Its provider caches up to the marks that a prompt carries.
    pub cache_marks: bool,
}

/// The most tokens of an answer, by the name that the provider knows this limit by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_tokens`, which nearly all providers know.
    MaxTokens(u32),
    /// `max_completion_tokens`, which some models take instead.
    MaxCompletionTokens(u32),
}

/// How one family of providers writes requests and answers.
#[async_trait]
pub trait Wire: Send + Sync {
    /// Sends a request. What comes back is kept by the transport, which has read it already.
    ///
    /// # Errors
    /// What the transport or the library found.
    async fn post(
        &self,
        openai: &OpenAi,
        model: &Model<'_>,
        request: &Request,
        stream: bool,
    ) -> Result<(), OpenAIError>;

    /// Begins to put a streamed answer together.
    fn assembly(&self) -> Box<dyn Assembly>;

    /// Reads an answer. `prompt_chars` measures what was sent, for an answer without usage.
    ///
    /// # Errors
    /// There is no message in it.
    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError>;
}

/// What one frame of a stream brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that people may read.
    pub text: String,
    /// Characters that they may not: thoughts, arguments of tools.
    pub hidden: usize,
}

/// A streamed answer that is being put together.
pub trait Assembly: Send {
    /// Takes in one frame.
    ///
    /// # Errors
    /// The answer grew beyond its bounds.
    fn take(&mut self, frame: Value) -> Result<Piece, ModelError>;

    /// The model has said why it stopped.
    fn is_finished(&self) -> bool;

    /// It has, and nothing of the answer is to follow.
    fn is_quiet(&self) -> bool;

    /// The answer as it would have come in one piece; none when nothing of one came.
    fn into_answer(self: Box<Self>) -> Option<Value>;
}
