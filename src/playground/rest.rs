//! The REST side.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::world::Core;

/// Stub.
pub async fn answer(State(_core): State<Arc<Core>>) -> Response {
    StatusCode::NOT_IMPLEMENTED.into_response()
}
