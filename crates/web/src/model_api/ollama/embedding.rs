//! Ollama's endpoints for embeddings, forwarded to the embedding model of a row.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::OllamaFailure;
use crate::model_api::failure::Failure;
use crate::model_api::openai::embeddings::{held, named, within};
use crate::model_api::{ModelApi, body};
use domain::api_key::Caller;
use domain::embedding::{EmbeddingRequest, Embeddings, Inputs};

/// The body of a request for the embeddings of one or more texts.
#[derive(Debug, Deserialize)]
struct EmbedRequest {
    model: Option<String>,
    #[serde(default)]
    input: Input,
    dimensions: Option<u32>,
}

/// The body of a request to the older endpoint, for the embedding of one text.
#[derive(Debug, Deserialize)]
struct EmbedOneRequest {
    model: Option<String>,
    #[serde(default)]
    prompt: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Texts(Vec<String>),
}

impl Default for Input {
    fn default() -> Self {
        Self::Texts(Vec::new())
    }
}

#[derive(Serialize)]
struct Embedded<'a> {
    model: &'a str,
    embeddings: &'a [Vec<f32>],
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: u64,
}

/// `POST /api/embed`.
pub(super) async fn embed(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OllamaFailure> {
    let begun = Instant::now();
    let (request, mut room) = body::read::<EmbedRequest>(&api.room, &caller, &headers, body).await?;
    let texts = match request.input {
        Input::Text(text) => vec![text],
        Input::Texts(texts) => texts,
    };
    let (made, name) = vectors(&api, &caller, request.model.as_deref(), texts, request.dimensions).await?;
    let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let write = move || {
        let (prompt_eval_count, load_duration) = (made.usage.prompt, 0);
        let embeddings = &made.vectors;
        serde_json::to_string(&Embedded {
            model: &name,
            embeddings,
            total_duration: took,
            load_duration,
            prompt_eval_count,
        })
    };
    let not_written = || Failure::Internal("the embeddings could not be serialized".to_owned());
    let text = tokio::task::spawn_blocking(write).await.map_err(|_| not_written())?.map_err(|_| not_written())?;
    room.grow(text.len()).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], held(Bytes::from(text), room)).into_response())
}

/// Returns the embeddings of texts, and the name of the model.
async fn vectors(
    api: &ModelApi,
    caller: &Caller,
    model: Option<&str>,
    texts: Vec<String>,
    dimensions: Option<u32>,
) -> Result<(Embeddings, String), Failure> {
    ModelApi::opens(caller)?;
    let (row, name) = named(api, caller, model)?;
    // Clients check that the model exists with an empty request.
    if texts.is_empty() {
        return Ok((Embeddings::default(), name));
    }
    let inputs = within(Inputs::Texts(texts))?;
    Ok((api.embed(caller, row, EmbeddingRequest { inputs, dimensions }).await?, name))
}

/// `POST /api/embeddings`, for older clients.
pub(super) async fn embed_one(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OllamaFailure> {
    let (request, _room) = body::read::<EmbedOneRequest>(&api.room, &caller, &headers, body).await?;
    let (made, _) = vectors(&api, &caller, request.model.as_deref(), vec![request.prompt], None).await?;
    Ok(Json(json!({"embedding": made.vectors.first()})).into_response())
}
