//! The seam of a provider's wire: writing requests, reading answers, assembling streams. The layer above handles
//! completions only; the layers below (connections, server-sent events, errors) are independent of the wire.
//!
//! To add a wire: a module beside [`super::chat`] that implements both traits, and a variant of `RowWire` (in
//! `row_wire`), which the field `wire` of a row selects.

use std::borrow::Cow;
use std::fmt;

use async_openai::error::OpenAIError;
use async_trait::async_trait;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::account::Account;
use crate::budget::Reservation;
use crate::hosting::Hosting;
use crate::provider_error::ProviderError;
use domain::completion::{Accepts, Completion, ReasoningEffort, Request};
use ports::ModelError;

/// The library's client for one call.
pub type OpenAi = async_openai::Client<Account>;

/// The properties of a model for one call.
pub struct Model<'a> {
    /// The provider's name of the model.
    pub name: &'a str,
    pub temperature: Temperature,
    /// The reasoning effort; `None` leaves it to the provider.
    pub effort: Option<ReasoningEffort>,
    /// True if it accepts a schema of the answer.
    pub takes_form: bool,
    /// The parts beside text that it accepts.
    pub accepts: Accepts,
    /// True if its reasoning may be requested in a form that is sent back in the same turn.
    pub keeps_reasoning: bool,
    /// The tools that the provider runs itself.
    pub hosting: Option<&'a Hosting<'a>>,
    /// The most tokens of an answer; `None` uses the provider's default.
    pub max_tokens: Option<TokenLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Temperature {
    /// It must not be sent.
    Fixed,
    /// The request's temperature, or else this one, if any.
    Usual(Option<f64>),
}

/// The most tokens of an answer, by the provider's name of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_tokens`, known to nearly all providers.
    MaxTokens(u32),
    /// `max_completion_tokens`, required by some models.
    MaxCompletionTokens(u32),
}

/// The request and answer format of a family of providers.
#[async_trait]
pub trait Wire: Send + Sync {
    /// Sends a request. The transport reads and keeps the response.
    ///
    /// # Errors
    /// The failure found by the transport or the library.
    async fn post(
        &self,
        openai: &OpenAi,
        model: &Model<'_>,
        request: &Request,
        stream: bool,
    ) -> Result<(), OpenAIError>;

    /// Creates an empty assembly of a streamed answer.
    fn assembly(&self) -> Box<dyn Assembly>;

    /// Reads a whole answer. `prompt_chars` returns the length of the prompt, for an answer without usage.
    ///
    /// # Errors
    /// It contains no message.
    fn read(&self, answer: Value, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError>;
}

/// The content of one stream frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Text for members.
    pub text: Cow<'a, str>,
    /// The number of hidden characters: reasoning, tool arguments.
    pub hidden: usize,
}

impl Piece<'_> {
    /// Detaches it from its frame.
    #[must_use]
    pub fn into_owned(self) -> Piece<'static> {
        Piece { text: Cow::Owned(self.text.into_owned()), hidden: self.hidden }
    }
}

/// The reason why a frame has no content.
#[derive(Debug)]
pub enum Unusable {
    NotJson,
    /// It contains an error of the provider.
    Failed(ProviderError),
    /// The answer exceeds its bounds.
    OutOfBounds(ModelError),
}

/// A streamed answer during assembly.
pub trait Assembly: Send {
    /// Processes one frame.
    ///
    /// # Errors
    /// See [`Unusable`].
    fn take<'a>(&mut self, frame: &'a str) -> Result<Piece<'a>, Unusable>;

    /// True after a finish reason.
    fn is_finished(&self) -> bool;

    /// True after a finish reason if no more text follows.
    fn is_quiet(&self) -> bool;

    /// True if the last frame that matters arrived.
    fn is_complete(&self) -> bool {
        false
    }

    /// Returns the memory of the answer so far, in bytes.
    fn bytes(&self) -> usize;

    /// True if a part of an answer arrived.
    fn is_answer(&self) -> bool;

    /// Returns the answer. `prompt_chars` returns the length of the prompt, for an answer without usage.
    fn into_completion(self: Box<Self>, prompt_chars: &dyn Fn() -> usize) -> Completion;
}

/// A received answer, with its memory.
pub struct Answer {
    pub form: AnswerForm,
    pub held: Reservation,
}

pub enum AnswerForm {
    /// Received as one JSON value.
    Json(Value),
    Streamed(Box<dyn Assembly>),
}

impl Answer {
    /// Returns the completion.
    ///
    /// # Errors
    /// It contains no message.
    pub fn read(self, wire: &dyn Wire, prompt_chars: &dyn Fn() -> usize) -> Result<Completion, ModelError> {
        let Self { form, held } = self;
        let read = || match form {
            AnswerForm::Json(answer) => wire.read(answer, prompt_chars),
            AnswerForm::Streamed(assembly) => Ok(assembly.into_completion(prompt_chars)),
        };
        let has_threads = || Handle::try_current().is_ok_and(|now| now.runtime_flavor() == RuntimeFlavor::MultiThread);
        // A long one would block the tasks of its thread for too long.
        let read = if held.is_long() && has_threads() { block_in_place(read) } else { read() };
        drop(held);
        read
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            AnswerForm::Json(_) => "Json",
            AnswerForm::Streamed(_) => "Streamed",
        })
    }
}
