//! Models on this machine, for the page only.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use super::api::{self, ApiError};
use super::{Desk, chaos};
use crate::bot_process::Choice;
use crate::neighbours::Offer;

/// The state for the page.
#[derive(Serialize)]
pub struct ModelsState {
    offers: Vec<Offer>,
    /// The model in use; `None` for the demo model.
    chosen: Option<Choice>,
    /// The reason why the configured model is unreachable.
    unreachable: Option<String>,
}

/// `GET /playground/models`
pub async fn offered(State(desk): State<Desk>) -> Json<ModelsState> {
    let models = &desk.breaking.models;
    let (offers, unreachable) = (models.offers().await, models.unreachable().await);
    Json(ModelsState { offers, chosen: models.chosen(), unreachable })
}

/// The chosen model.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choosing {
    /// `None` for the demo model.
    choice: Option<Choice>,
}

/// `POST /playground/models`
pub async fn choose(
    State(desk): State<Desk>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, ApiError> {
    chaos::of_this_page(&desk, &headers)?;
    let Choosing { choice } = api::read(body)?;
    let demo = choice.is_none();
    let taken = desk.breaking.models.choose(choice).await;
    taken.map_err(|refused| ApiError::new(StatusCode::CONFLICT, refused.to_string()))?;
    desk.breaking.chaos.set_demo(demo);
    Ok(StatusCode::NO_CONTENT)
}
