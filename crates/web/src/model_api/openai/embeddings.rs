//! OpenAI's endpoint for embeddings, forwarded to the embedding model of a row.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use serde::{Deserialize, Serialize};

use super::OpenAiFailure;
use crate::model_api::failure::Failure;
use crate::model_api::room::RoomReservation;
use crate::model_api::{LATEST, ModelApi, OWN_MODEL, body};
use domain::api_key::Caller;
use domain::embedding::{EmbeddingRequest, Embeddings, Inputs};

/// Maximum number of inputs of a request.
const INPUTS_MAX: usize = 1_000;

/// Size of a body chunk, in bytes.
const PIECE: usize = 64 * 1024;

pub(super) fn routes() -> Router<Arc<ModelApi>> {
    Router::new().route("/v1/embeddings", post(embed))
}

#[derive(Debug, Deserialize)]
struct EmbeddingsBody {
    model: Option<String>,
    input: Input,
    #[serde(default)]
    encoding_format: Encoding,
    dimensions: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Texts(Vec<String>),
    Token(Vec<u32>),
    Tokens(Vec<Vec<u32>>),
}

/// The format of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    /// Lists of numbers.
    #[default]
    Float,
    /// Little-endian single-precision numbers.
    Base64,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
    model: &'a str,
    usage: Tokens,
}

#[derive(Serialize)]
struct Entry<'a> {
    object: &'static str,
    index: usize,
    embedding: Vector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector<'a> {
    Float(&'a [f32]),
    Base64(String),
}

#[derive(Serialize)]
struct Tokens {
    prompt_tokens: u64,
    total_tokens: u64,
}

impl Input {
    fn read(self) -> Result<Inputs, Failure> {
        let inputs = match self {
            Self::Text(text) => Inputs::Texts(vec![text]),
            Self::Texts(texts) => Inputs::Texts(texts),
            Self::Token(tokens) => Inputs::Tokens(vec![tokens]),
            Self::Tokens(tokens) => Inputs::Tokens(tokens),
        };
        within(inputs)
    }
}

/// Checks the bounds of the inputs.
///
/// # Errors
/// There are too many inputs, none, or an empty one.
pub(in crate::model_api) fn within(inputs: Inputs) -> Result<Inputs, Failure> {
    let has_empty = match &inputs {
        Inputs::Texts(texts) => texts.iter().any(String::is_empty),
        Inputs::Tokens(tokens) => tokens.iter().any(Vec::is_empty),
    };
    if inputs.is_empty() || inputs.len() > INPUTS_MAX || has_empty {
        return Err(Failure::bad("input", format!("send 1 to {INPUTS_MAX} texts, none of them empty")));
    }
    Ok(inputs)
}

async fn embed(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OpenAiFailure> {
    let (request, mut room) = body::read::<EmbeddingsBody>(&api.room, &caller, &headers, body).await?;
    let EmbeddingsBody { model, input, encoding_format, dimensions } = request;
    ModelApi::opens(&caller)?;
    let request = EmbeddingRequest { inputs: input.read()?, dimensions };
    let (row, name) = named(&api, &caller, model.as_deref())?;
    let made = api.embed(&caller, row, request).await?;
    let write = move || written(&made, &name, encoding_format);
    let gone = |_| Failure::Internal("the embeddings could not be serialized".to_owned());
    let text = tokio::task::spawn_blocking(write).await.map_err(gone)??;
    room.grow(text.len()).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], held(Bytes::from(text), room)).into_response())
}

/// Returns a body that holds its memory reservation until all of it is sent.
pub(in crate::model_api) fn held(text: Bytes, room: RoomReservation) -> Body {
    Body::from_stream(stream::unfold((text, room), |(mut left, room)| async {
        let piece = left.split_to(left.len().min(PIECE));
        (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (left, room)))
    }))
}

/// Returns the row with this name or with an embedding model of this name, and the name of that model.
pub(in crate::model_api) fn named(
    api: &ModelApi,
    caller: &Caller,
    name: Option<&str>,
) -> Result<(String, String), Failure> {
    let rows = api.rows(caller);
    let name = name.filter(|name| !name.is_empty()).unwrap_or(OWN_MODEL);
    let making = || rows.iter().filter_map(|row| Some((row.key.clone(), row.embeddings.clone()?)));
    let find = |name: &str| making().find(|(key, model)| name == OWN_MODEL || name == key || name == model);
    let short = name.strip_suffix(LATEST).unwrap_or(name);
    if let Some(found) = find(name).or_else(|| find(short)) {
        return Ok(found);
    }
    if short == OWN_MODEL || rows.iter().any(|row| row.key == name || row.key == short) {
        let why = format!(
            "this model does not support embeddings; set \"embeddings\" in the row {short:?} of models.json to the name of \
             one that does"
        );
        return Err(Failure::bad("model", why));
    }
    Err(Failure::NoModel(name.to_owned()))
}

fn written(made: &Embeddings, model: &str, encoding: Encoding) -> Result<String, Failure> {
    let entries = made.vectors.iter().enumerate().map(|(index, vector)| {
        let embedding = match encoding {
            Encoding::Float => Vector::Float(vector),
            Encoding::Base64 => Vector::Base64(
                STANDARD.encode(vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()),
            ),
        };
        Entry { object: "embedding", index, embedding }
    });
    let tokens = made.usage.prompt;
    let usage = Tokens { prompt_tokens: tokens, total_tokens: tokens };
    let list = List { object: "list", data: entries.collect(), model, usage };
    serde_json::to_string(&list).map_err(|_| Failure::Internal("the embeddings cannot be serialized".to_owned()))
}
