//! Requests to models.

use async_trait::async_trait;

use crate::delta::DeltaSink;
use crate::model_error::{ModelError, ModelErrorKind};
use domain::completion::{Completion, Request};
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::model::Row;

/// The configured models.
#[async_trait]
pub trait Models: Send + Sync {
    /// Returns the rows, the default first.
    fn rows(&self) -> &[Row];

    /// Returns the name of this row's provider: equal for rows that are called at one address with one key.
    fn provider<'a>(&'a self, row: &'a str) -> &'a str {
        row
    }

    /// True if the provider of this row currently accepts tools; false for a while after it refused them.
    fn takes_tools(&self, _row: &str) -> bool {
        true
    }

    /// Requests one completion from this row: one attempt without retries, bounded by the row's timeout.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError>;

    /// Does the same, with deltas of the answer if the row and its provider can stream. Deltas before a failure are
    /// not revoked; together they are a prefix of the completion's content.
    ///
    /// # Errors
    /// See [`ModelError`].
    async fn stream(&self, row: &str, request: &Request, _heard: DeltaSink) -> Result<Completion, ModelError> {
        self.complete(row, request).await
    }

    /// Requests embeddings from this row's embedding model: one attempt, bounded by the row's timeout.
    ///
    /// # Errors
    /// See [`ModelError`]; also if the row has no such model.
    async fn embed(&self, row: &str, _request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
        let why = format!("the row {row} has no embedding model");
        Err(ModelError::new(ModelErrorKind::Unsupported, why))
    }
}
