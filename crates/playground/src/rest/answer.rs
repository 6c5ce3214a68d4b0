//! Answers and refusals in Discord's shapes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::script::PlannedAnswer;

/// An answer without its transport.
pub struct RestReply {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body; none for 204.
    pub body: Option<Value>,
    /// Headers beside those of the budgets.
    pub headers: Vec<(&'static str, String)>,
}

impl RestReply {
    /// 200 with a body.
    #[must_use]
    pub fn ok(body: Value) -> Self {
        Self { status: 200, body: Some(body), headers: Vec::new() }
    }

    /// 204.
    #[must_use]
    pub fn nothing() -> Self {
        Self { status: 204, body: None, headers: Vec::new() }
    }

    /// 429: a budget is empty for `wait`.
    #[must_use]
    pub fn limited(wait: Duration, global: bool) -> Self {
        // Milliseconds rounded up: a client that waits exactly this long must not be too early.
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

    /// What a fault asked for.
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

/// A refusal: a status with Discord's error body.
#[derive(Debug)]
pub struct ApiError {
    status: u16,
    code: u32,
    message: String,
    errors: Option<Value>,
}

impl ApiError {
    /// An error with one of Discord's codes.
    #[must_use]
    pub fn new(status: u16, code: u32, message: &str) -> Self {
        Self { status, code, message: message.to_owned(), errors: None }
    }

    /// An error that has no code of its own.
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

    /// 400 for one field of the body, such as `content` or `message_reference.message_id`.
    #[must_use]
    pub fn field(path: &str, code: &str, message: &str) -> Self {
        let mut errors = json!({"_errors": [{"code": code, "message": message}]});
        for name in path.rsplit('.') {
            errors = json!({ name: errors });
        }
        Self { errors: Some(errors), ..Self::new(400, 50_035, "Invalid Form Body") }
    }

    /// There is no such channel.
    #[must_use]
    pub fn unknown_channel() -> Self {
        Self::new(404, 10_003, "Unknown Channel")
    }

    /// There is no such guild.
    #[must_use]
    pub fn unknown_guild() -> Self {
        Self::new(404, 10_004, "Unknown Guild")
    }

    /// There is no such member.
    #[must_use]
    pub fn unknown_member() -> Self {
        Self::new(404, 10_007, "Unknown Member")
    }

    /// There is no such message.
    #[must_use]
    pub fn unknown_message() -> Self {
        Self::new(404, 10_008, "Unknown Message")
    }

    /// The bot may not do this.
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
