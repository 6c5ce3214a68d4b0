//! Refusals of these routes.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::sessions::NotTaken;
use web::problem::problem;

/// Returns a refusal with this status and reason.
pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    problem(status, why).into_response()
}

/// The response for unknown paths.
pub(super) async fn no_endpoint() -> Response {
    refused(StatusCode::NOT_FOUND, "there is no such endpoint; GET /api/v1/openapi.json lists them")
}

/// Returns the status for a message or a name that was not accepted.
pub(super) const fn status_of(why: NotTaken) -> StatusCode {
    match why {
        NotTaken::BadName | NotTaken::Empty | NotTaken::NotTheirs => StatusCode::BAD_REQUEST,
        NotTaken::NameTaken => StatusCode::CONFLICT,
        NotTaken::Crowded => StatusCode::SERVICE_UNAVAILABLE,
    }
}
