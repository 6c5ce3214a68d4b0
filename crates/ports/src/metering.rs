//! Model use outside of turns, within the limits of the caller.

use std::time::Duration;

use super::ModelError;
use domain::embedding::EmbeddingRequest;
use domain::ids::{MessageId, Person};

/// A request for embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingAsk {
    /// The caller.
    pub person: Person,
    /// The id of this request in the caller's limit window.
    pub message: MessageId,
    /// The row whose embedding model is used.
    pub row: String,
    /// The inputs.
    pub request: EmbeddingRequest,
}

/// The reason why there are no embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotEmbedded {
    /// The caller is over a limit, for this long. `None`: the limit never allows it.
    OverLimit(Option<Duration>),
    /// Limits or permits could not be checked, or all permits are taken.
    NotCounted,
    /// The vectors requested exceed the bound; this many would be allowed.
    TooMany(usize),
    /// The model failed.
    Model(ModelError),
}
