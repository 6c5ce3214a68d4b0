//! Fault injection orders, accepted from the page only.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::Desk;
use super::api::{self, ApiError, forbidden};
use crate::bot_process::{Counted, Strike};
use crate::chaos::{Caused, Trouble};

/// The header with the page's token. Other pages cannot send it without a CORS preflight, which is never granted. A
/// page of an earlier start gets an error that says so.
const TOKEN: &str = "x-staffai-chaos";

/// The state for the page.
#[derive(Serialize)]
pub struct ChaosState {
    /// The token to send with each order.
    token: String,
    #[serde(flatten)]
    caused: Caused,
    #[serde(flatten)]
    counted: Counted,
}

/// `GET /playground/chaos`
pub async fn caused(State(desk): State<Desk>) -> Json<ChaosState> {
    let token = desk.breaking.token.expose_secret().to_owned();
    let mut counted = desk.breaking.chaos.counted();
    // Duplicates in the chat are also counted from outside the bot, independently of its own counters.
    counted.doubled = counted.doubled.max(desk.service.doubled());
    Json(ChaosState { token, caused: desk.breaking.chaos.caused(), counted })
}

/// Checks that an order comes from the page of this start.
pub(super) fn of_this_page(desk: &Desk, headers: &HeaderMap) -> Result<(), ApiError> {
    let token = desk.breaking.token.expose_secret();
    if headers.get(TOKEN).is_none_or(|shown| shown.as_bytes() != token.as_bytes()) {
        return Err(forbidden("this page is from an earlier start; reload it"));
    }
    Ok(())
}

/// The requested failure.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Order {
    Actor { actor: String, strike: Strike },
    Beside { trouble: Trouble },
}

/// `POST /playground/chaos`
pub async fn order(
    State(desk): State<Desk>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, ApiError> {
    of_this_page(&desk, &headers)?;
    let chaos = &desk.breaking.chaos;
    let taken = match api::read(body)? {
        Order::Actor { actor, strike } => chaos.strike(&actor, strike).await,
        Order::Beside { trouble } => chaos.trouble(trouble).await,
    };
    taken.map_err(|refused| ApiError::new(StatusCode::CONFLICT, refused.to_string()))?;
    Ok(StatusCode::NO_CONTENT)
}
