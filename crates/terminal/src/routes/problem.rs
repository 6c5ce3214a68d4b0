//! What is refused at these routes, and why.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::sessions::NotTaken;
use web::problem::problem;

/// A refusal with this status, which says why.
pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    problem(status, why).into_response()
}

/// Nothing is at this path.
pub(super) async fn no_endpoint() -> Response {
    refused(StatusCode::NOT_FOUND, "there is no such endpoint; GET /api/v1/openapi.json describes those there are")
}

/// The status for a message or a name that was not taken.
pub(super) const fn status_of(why: NotTaken) -> StatusCode {
    match why {
        NotTaken::BadName | NotTaken::Empty | NotTaken::NotTheirs => StatusCode::BAD_REQUEST,
        NotTaken::NameTaken => StatusCode::CONFLICT,
        NotTaken::Crowded => StatusCode::SERVICE_UNAVAILABLE,
    }
}
