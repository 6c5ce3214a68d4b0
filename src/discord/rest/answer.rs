//! What came back from the request API, and what it means.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::events;
use crate::ports::{Bucket, PostError, PostReply, PostResult};

/// The largest answer that is read. A hundred messages with everything attached stay below it.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// The longest text of Discord that goes into an error, in characters.
const MAX_WORDS: usize = 300;
/// The longest wait that is believed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// What stands before Discord's code in an error.
const CODE: &str = "code ";
/// Discord's code for a reply by somebody who may not read message history.
const NO_HISTORY: u32 = 160_002;
/// The wait when too many requests were made and nothing says for how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// An answer that came back whole.
#[derive(Debug)]
pub(super) struct RestResponse {
    pub(super) status: StatusCode,
    bucket: Option<Bucket>,
    retry_after: Option<Duration>,
    /// A global limit, by the headers.
    global: bool,
    body: Result<Vec<u8>, PostError>,
}

impl RestResponse {
    /// Reads an answer up to the cap.
    ///
    /// # Errors
    /// Never for a broken body: the status may already say enough. See [`RestResponse::success`].
    pub(super) async fn read(mut response: reqwest::Response) -> Result<Self, PostError> {
        let status = response.status();
        let headers = response.headers();
        let bucket = bucket(headers);
        let retry_after = seconds(headers, "retry-after").or_else(|| seconds(headers, "x-ratelimit-reset-after"));
        let global = headers.get("x-ratelimit-global").is_some_and(|value| value != "false");
        let mut body = Vec::new();
        let body = loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY => {
                    break Err(PostError::Transient("the answer of discord is too large".to_owned()));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break Ok(body),
                Err(error) => break Err(lost(error)),
            }
        };
        Ok(Self { status, bucket, retry_after, global, body })
    }

    /// Itself when the status is one of success.
    ///
    /// # Errors
    /// What the status means; or the body was lost on the way.
    pub(super) fn success(self) -> Result<Self, PostError> {
        if self.status.is_success() {
            return match self.body {
                Err(error) => Err(error),
                Ok(_) => Ok(self),
            };
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(self.rate_limited());
        }
        if self.status.is_server_error() {
            return Err(PostError::Transient(format!("discord answered {}", self.status.as_u16())));
        }
        Err(PostError::Refused { status: self.status.as_u16(), message: self.words() })
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is something else. The request may have worked, so another try is right.
    pub(super) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, PostError> {
        serde_json::from_slice(self.bytes()).map_err(|error| undecodable(&error))
    }

    /// The reply with what the headers said of the limits.
    pub(super) fn reply(&self, result: PostResult) -> PostReply {
        PostReply { result, bucket: self.bucket.clone() }
    }

    /// The reply that names the message in the body.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn posted(&self) -> Result<PostReply, PostError> {
        let raw: &RawValue = self.json()?;
        let id = events::id_of(raw.get()).map_err(|error| undecodable(&error))?;
        Ok(self.reply(PostResult::Message(id)))
    }

    fn bytes(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    fn rate_limited(&self) -> PostError {
        #[derive(Deserialize)]
        struct Limit {
            #[serde(default)]
            retry_after: Option<f64>,
            #[serde(default)]
            global: bool,
        }
        let told: Option<Limit> = serde_json::from_slice(self.bytes()).ok();
        // Without Discord's own body it is the guard in front of it that speaks, and that one shuts the whole address.
        let global = self.global || told.as_ref().is_none_or(|limit| limit.global);
        let retry_after = told
            .and_then(|limit| limit.retry_after)
            .and_then(duration)
            .or(self.retry_after)
            .unwrap_or(DEFAULT_RETRY_AFTER)
            .min(MAX_RETRY_AFTER);
        PostError::RateLimited { retry_after, global }
    }

    /// Discord's code and message, capped.
    fn words(&self) -> String {
        #[derive(Deserialize)]
        struct ErrorBody<'a> {
            #[serde(default)]
            code: Option<i64>,
            message: String,
            #[serde(default, borrow)]
            errors: Option<&'a RawValue>,
        }
        let Ok(refusal) = serde_json::from_slice::<ErrorBody<'_>>(self.bytes()) else {
            return self.status.canonical_reason().unwrap_or("no reason given").to_lowercase();
        };
        let mut words = match refusal.code {
            Some(code) => format!("{CODE}{code}: {}", refusal.message),
            None => refusal.message,
        };
        if let Some(errors) = refusal.errors {
            words.push_str(": ");
            words.push_str(errors.get());
        }
        words.chars().take(MAX_WORDS).collect()
    }
}

/// Discord's code of a refusal, when it told one.
pub(super) fn code(error: &PostError) -> Option<u32> {
    match error {
        PostError::Refused { message, .. } => message.strip_prefix(CODE)?.split(':').next()?.parse().ok(),
        _ => None,
    }
}

/// Who may not read older messages may not reply to one either; everything else stays as it is.
pub(super) fn without_history(error: PostError) -> PostError {
    if code(&error) == Some(NO_HISTORY) { PostError::NoReply(error.to_string()) } else { error }
}

/// The error for a body of success that is not what was asked for.
pub(super) fn undecodable(error: &serde_json::Error) -> PostError {
    let reason = crate::discord::frame::reason(error);
    PostError::Transient(format!("the answer of discord could not be read: {reason}"))
}

/// The error for a request without an answer. It holds neither the address nor the token.
pub(super) fn lost(error: reqwest::Error) -> PostError {
    let error = error.without_url();
    let what = if error.is_timeout() {
        "discord did not answer in time"
    } else if error.is_connect() {
        "discord could not be reached"
    } else {
        "the answer of discord was lost"
    };
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let cause: String = cause.to_string().chars().take(MAX_WORDS).collect();
    PostError::Transient(format!("{what}: {cause}"))
}

fn bucket(headers: &HeaderMap) -> Option<Bucket> {
    let remaining = headers.get("x-ratelimit-remaining")?.to_str().ok()?.trim().parse().ok()?;
    let reset_after = seconds(headers, "x-ratelimit-reset-after")?;
    Some(Bucket { remaining, reset_after: reset_after.min(MAX_RETRY_AFTER) })
}

fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok().and_then(duration)
}

/// Seconds with a fraction; none for what is no duration.
fn duration(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(MAX_RETRY_AFTER))
}
