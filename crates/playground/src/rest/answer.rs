//! Answers and errors in Discord's format.

use std::time::Duration;

use serde_json::{Value, json};

use crate::script::PlannedAnswer;

/// A response without its transport.
pub struct RestReply {
    pub status: u16,
    /// The JSON body; `None` for 204.
    pub body: Option<Value>,
    /// Headers beside those of the rate limits.
    pub headers: Vec<(&'static str, String)>,
}

impl RestReply {
    /// Returns 200 with a body.
    #[must_use]
    pub fn ok(body: Value) -> Self {
        Self { status: 200, body: Some(body), headers: Vec::new() }
    }

    /// Returns 204.
    #[must_use]
    pub fn nothing() -> Self {
        Self { status: 204, body: None, headers: Vec::new() }
    }

    /// Returns 429: a budget is empty for `wait`.
    #[must_use]
    pub fn limited(wait: Duration, global: bool) -> Self {
        // Milliseconds, rounded up: a client that waits exactly this long must not be too early.
        let seconds = (wait.as_secs_f64() * 1_000.0).ceil() / 1_000.0;
        let mut headers = vec![
            ("retry-after", format!("{:.0}", seconds.ceil())),
            ("x-ratelimit-scope", if global { "global" } else { "user" }.to_owned()),
        ];
        if global {
            headers.push(("x-ratelimit-global", "true".to_owned()));
        }
        let body = json!({"message": "You are being rate limited.", "retry_after": seconds, "global": global});
        Self { status: 429, body: Some(body), headers }
    }

    /// Returns the answer of an injected fault.
    #[must_use]
    pub fn planned(plan: &PlannedAnswer) -> Self {
        if plan.status == 429 {
            return Self::limited(plan.retry_after.unwrap_or(Duration::from_secs(1)), false);
        }
        let mut answer = Self::from(ApiError { code: plan.code, ..ApiError::plain(plan.status) });
        if let Some(wait) = plan.retry_after {
            answer.headers.push(("retry-after", format!("{:.0}", wait.as_secs_f64().ceil())));
        }
        answer
    }
}

/// An error status with Discord's error body.
#[derive(Debug)]
pub struct ApiError {
    status: u16,
    code: u32,
    message: String,
    errors: Option<Value>,
}

impl ApiError {
    /// Creates an error with one of Discord's codes.
    #[must_use]
    pub fn new(status: u16, code: u32, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), errors: None }
    }

    /// Creates an error without a code.
    #[must_use]
    pub fn plain(status: u16) -> Self {
        let text = match status {
            401 => "401: Unauthorized",
            403 => "403: Forbidden",
            404 => "404: Not Found",
            405 => "405: Method Not Allowed",
            500 => "500: Internal Server Error",
            502 => "502: Bad Gateway",
            503 => "503: Service Unavailable",
            _ => "the request failed",
        };
        Self::new(status, 0, text)
    }

    /// Returns 400 for one field of the body, such as `content` or `message_reference.message_id`.
    #[must_use]
    pub fn field(path: &str, code: &str, message: &str) -> Self {
        let mut errors = json!({"_errors": [{"code": code, "message": message}]});
        for name in path.rsplit('.') {
            errors = json!({ name: errors });
        }
        Self { errors: Some(errors), ..Self::new(400, 50_035, "Invalid Form Body") }
    }

    #[must_use]
    pub fn unknown_channel() -> Self {
        Self::new(404, 10_003, "Unknown Channel")
    }

    #[must_use]
    pub fn unknown_guild() -> Self {
        Self::new(404, 10_004, "Unknown Guild")
    }

    #[must_use]
    pub fn unknown_member() -> Self {
        Self::new(404, 10_007, "Unknown Member")
    }

    #[must_use]
    pub fn unknown_message() -> Self {
        Self::new(404, 10_008, "Unknown Message")
    }

    #[must_use]
    pub fn missing_permissions() -> Self {
        Self::new(403, 50_013, "Missing Permissions")
    }
}

impl From<ApiError> for RestReply {
    fn from(refusal: ApiError) -> Self {
        let mut body = json!({"message": refusal.message, "code": refusal.code});
        if let Some(errors) = refusal.errors {
            body["errors"] = errors;
        }
        Self { status: refusal.status, body: Some(body), headers: Vec::new() }
    }
}
