//! The first setup, from the page only: tests a token or a model, and writes `.env`. Secrets are never sent back.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{self, ApiError, bad};
use super::{Desk, chaos};
use crate::setup::{Outcome, Part, Typed};

const VALUE_BYTES: usize = 2_000;
/// The address at which an application is created, and an example of a model's address.
const PORTAL: &str = "https://discord.com/developers/applications";
const EXAMPLE: &str = "http://localhost:11434/v1";

/// `GET /playground/setup`: returns the names of the variables that `.env` sets, and addresses to show.
pub async fn known(State(desk): State<Desk>) -> Result<Json<Value>, ApiError> {
    let set = desk.breaking.setup.set().await.map_err(conflict)?;
    Ok(Json(json!({"set": set, "portal": PORTAL, "example": EXAMPLE})))
}

/// Settings to test and write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingUp {
    part: Part,
    values: Vec<String>,
}

/// `POST /playground/setup`. One setup runs at a time.
pub async fn set_up(
    State(desk): State<Desk>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Outcome>, ApiError> {
    chaos::of_this_page(&desk, &headers)?;
    let SettingUp { part, values } = api::read(body)?;
    let expected = match part {
        Part::Discord => 1,
        Part::Model => 3,
    };
    if values.len() != expected || values.iter().any(|value| value.len() > VALUE_BYTES) {
        return Err(bad(format!("this part has {expected} values of at most {VALUE_BYTES} bytes")));
    }
    let Ok(_alone) = desk.setting_up.try_acquire() else {
        return Err(conflict("a test is running; wait for its result"));
    };
    let values = values.into_iter().map(SecretString::from).collect();
    desk.breaking.setup.set_up(Typed { part, values }).await.map(Json).map_err(conflict)
}

fn conflict(why: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, why)
}
