//! The seam of a provider's wire: how a request is written, how an answer is read, how the pieces of a streamed one are put
//! together. What is above knows completions alone; what is below (connections, server-sent events, errors) knows no wire.
//!
//! To add a wire: a module beside [`super::chat`] that implements both traits, and the row of `models.json` that chooses it.

use std::borrow::Cow;
use std::fmt;

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;

use crate::account::Account;
use crate::provider_error::ProviderError;
use domain::completion::{Completion, Request};
use ports::ModelError;

/// The library's client for one call.
pub type OpenAi = async_openai::Client<Account>;

/// What is particular to a model, as far as this call may use it.
pub struct Model<'a> {
    /// The name that its provider knows it by.
    pub name: &'a str,
    /// The sampling temperature.
    pub temperature: Temperature,
    /// It takes the form of the answer as a schema.
    pub takes_form: bool,
    /// It sees pictures.
    pub sees: bool,
    /// The most tokens of an answer; none leaves it to the provider.
    pub max_tokens: Option<TokenLimit>,
    /// Its provider caches up to the marks that a prompt carries.
    pub cache_marks: bool,
}

/// The sampling temperature of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Temperature {
    /// None may be sent.
    Fixed,
    /// That of the request; where it names none this one, if any.
    Usual(Option<f64>),
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

    /// Reads an answer of one piece. `prompt_chars` measures what was sent, for an answer without usage.
    ///
    /// # Errors
    /// There is no message in it.
    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError>;
}

/// What one frame of a stream brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Text that people may read.
    pub text: Cow<'a, str>,
    /// Characters that they may not: thoughts, arguments of tools.
    pub hidden: usize,
}

impl Piece<'_> {
    /// The same without its frame.
    #[must_use]
    pub fn into_owned(self) -> Piece<'static> {
        Piece { text: Cow::Owned(self.text.into_owned()), hidden: self.hidden }
    }
}

/// Why a frame brought nothing.
#[derive(Debug)]
pub enum Unusable {
    /// It is not JSON.
    NotJson,
    /// It carries an error of the provider.
    Failed(ProviderError),
    /// The answer grew beyond its bounds.
    OutOfBounds(ModelError),
}

/// A streamed answer that is being put together.
pub trait Assembly: Send {
    /// Takes in one frame.
    ///
    /// # Errors
    /// See [`Unusable`].
    fn take<'a>(&mut self, frame: &'a str) -> Result<Piece<'a>, Unusable>;

    /// The model has said why it stopped.
    fn is_finished(&self) -> bool;

    /// It has, and nothing of the answer is to follow.
    fn is_quiet(&self) -> bool;

    /// Something of an answer came.
    fn is_answer(&self) -> bool;

    /// The answer. `prompt_chars` measures what was sent, for an answer without usage.
    fn into_completion(self: Box<Self>, prompt_chars: &dyn Fn() -> usize) -> Completion;
}

/// An answer that came whole.
pub enum Answer {
    /// In one piece.
    Json(Value),
    /// As a stream.
    Streamed(Box<dyn Assembly>),
}

impl Answer {
    /// The completion in it.
    ///
    /// # Errors
    /// There is no message in it.
    pub fn read(self, wire: &dyn Wire, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
        match self {
            Self::Json(answer) => wire.read(answer, prompt_chars),
            Self::Streamed(assembly) => Ok(assembly.into_completion(prompt_chars)),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json(_) => "Json",
            Self::Streamed(_) => "Streamed",
        })
    }
}
