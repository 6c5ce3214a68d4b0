//! Refusals of these routes.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::sessions::NotTaken;
use web::problem::problem;

/// `Retry-After` of a service that is unavailable, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("5");

pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    let mut response = problem(status, why).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, AGAIN);
    }
    response
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
        NotTaken::Crowded | NotTaken::Away => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_now_may_be_asked_again() {
        let away = refused(status_of(NotTaken::Away), &NotTaken::Away.to_string());
        assert_eq!((away.status().as_u16(), &away.headers()[header::RETRY_AFTER]), (503, &AGAIN));
        assert!(!refused(status_of(NotTaken::BadName), "no").headers().contains_key(header::RETRY_AFTER));
    }
}
