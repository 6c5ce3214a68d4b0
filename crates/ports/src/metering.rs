//! Work of models beside turns, within the limits of who asks.

use std::time::Duration;

use super::ModelError;
use domain::embedding::EmbeddingRequest;
use domain::ids::{MessageId, Person};

/// Somebody wants vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingAsk {
    /// Who asks.
    pub person: Person,
    /// The name of this request in their window.
    pub message: MessageId,
    /// The row whose embedding model makes them.
    pub row: String,
    /// What is to be made into vectors.
    pub request: EmbeddingRequest,
}

/// Why there are no vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotEmbedded {
    /// Who asks is over a limit, for this long; none when the limit allows nothing at all.
    OverLimit(Option<Duration>),
    /// The limits or the permits could not be asked, or all permits are taken.
    NotCounted,
    /// So many vectors are too much; at most this many would not be.
    TooMany(usize),
    /// The model failed.
    Model(ModelError),
}
