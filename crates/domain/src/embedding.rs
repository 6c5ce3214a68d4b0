//! Embeddings: texts as vectors.

use super::completion::{Usage, estimated_tokens};

/// The inputs of a request, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inputs {
    /// Texts.
    Texts(Vec<String>),
    /// Texts as tokens of the model.
    Tokens(Vec<Vec<u32>>),
}

/// A request for embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingRequest {
    /// The inputs.
    pub inputs: Inputs,
    /// The length of a vector. `None`: the model decides.
    pub dimensions: Option<u32>,
}

/// The vectors, one per input, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embeddings {
    /// The vectors.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens used.
    pub usage: Usage,
}

impl Inputs {
    /// Returns the number of inputs.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(tokens) => tokens.len(),
        }
    }

    /// True if there are no inputs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the approximate number of tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Texts(texts) => estimated_tokens(texts.iter().map(String::len).sum()),
            Self::Tokens(tokens) => tokens.iter().map(Vec::len).sum::<usize>() as u64,
        }
    }

    /// Splits the inputs into batches of at most `most`.
    #[must_use]
    pub fn pieces(&self, most: usize) -> Vec<Self> {
        match self {
            Self::Texts(texts) => texts.chunks(most).map(|piece| Self::Texts(piece.to_vec())).collect(),
            Self::Tokens(tokens) => tokens.chunks(most).map(|piece| Self::Tokens(piece.to_vec())).collect(),
        }
    }
}
