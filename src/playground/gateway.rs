//! The WebSocket side.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::world::Core;

pub mod hub;
pub mod intents;

/// Stub.
pub async fn upgrade(State(_core): State<Arc<Core>>) -> Response {
    StatusCode::NOT_IMPLEMENTED.into_response()
}
