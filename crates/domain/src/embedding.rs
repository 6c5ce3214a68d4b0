//! Texts as vectors: what is asked for, and what comes back.

use super::completion::{Usage, estimated_tokens};

/// What is to be made into vectors, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inputs {
    /// Texts.
    Texts(Vec<String>),
    /// Texts as the tokens of the model.
    Tokens(Vec<Vec<u32>>),
}

/// A request for vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingRequest {
    /// What is to be made into vectors.
    pub inputs: Inputs,
    /// The length of a vector; none leaves it to the model.
    pub dimensions: Option<u32>,
}

/// Vectors, one for each input, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embeddings {
    /// The vectors.
    pub vectors: Vec<Vec<f32>>,
    /// What they took.
    pub usage: Usage,
}

impl Inputs {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Tokens(tokens) => tokens.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens that they take, about.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Texts(texts) => estimated_tokens(texts.iter().map(String::len).sum()),
            Self::Tokens(tokens) => tokens.iter().map(Vec::len).sum::<usize>() as u64,
        }
    }

    /// The same in pieces of at most so many.
    #[must_use]
    pub fn pieces(&self, most: usize) -> Vec<Self> {
        match self {
            Self::Texts(texts) => texts.chunks(most).map(|piece| Self::Texts(piece.to_vec())).collect(),
            Self::Tokens(tokens) => tokens.chunks(most).map(|piece| Self::Tokens(piece.to_vec())).collect(),
        }
    }
}
