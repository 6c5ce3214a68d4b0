//! What came back from the request API, and what it means.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serenity::model::id::MessageId as WireMessageId;
use tokio::time::{Instant, timeout_at};

use super::events;
use domain::rejection::Rejection;
use http_client::{Failure, FailureKind, Response};
use ports::{Bucket, PostError, PostReply, PostResult};

/// The largest answer that is read. A hundred messages with everything attached stay below it.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// The largest answer that refuses something and is read; what is longer counts for its status alone.
const MAX_REFUSAL: usize = 64 * 1024;
/// The longest text of Discord that goes into an error, in characters.
const MAX_WORDS: usize = 300;
/// The longest wait that is believed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Discord's code for a channel that does not exist.
const UNKNOWN_CHANNEL: u32 = 10_003;
/// Discord's code for a message that does not exist.
const UNKNOWN_MESSAGE: u32 = 10_008;
/// Discord's codes for missing access and missing permissions.
const FORBIDDEN: [u32; 2] = [50_001, 50_013];
/// The wait when too many requests were made and nothing says for how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Why a request failed, with what only this edge may read of it.
#[derive(Debug)]
pub(super) enum RestError {
    /// Discord answered with a status of refusal.
    Refused(Refused),
    /// There was no answer, or one that says to come back.
    Other(PostError),
}

/// A status of refusal, and what Discord said about it.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    /// Discord's error code; none when the body has none or zero.
    code: Option<u32>,
    /// Discord's words, at most [`MAX_WORDS`] characters.
    words: String,
}

impl RestError {
    /// Discord's error code; none when the body has none.
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Refused(refused) => refused.code,
            Self::Other(_) => None,
        }
    }
}

impl From<PostError> for RestError {
    fn from(error: PostError) -> Self {
        Self::Other(error)
    }
}

impl From<RestError> for PostError {
    fn from(error: RestError) -> Self {
        match error {
            RestError::Refused(refused) => refused.into(),
            RestError::Other(error) => error,
        }
    }
}

impl From<Refused> for PostError {
    fn from(Refused { status, code, words }: Refused) -> Self {
        let code_text = code.map_or_else(String::new, |code| format!("code {code}: "));
        let message = format!("status {}: {code_text}{words}", status.as_u16());
        Self::Rejected { reason: rejection(status, code), message }
    }
}

/// What a status and an error code of Discord mean. A proxy in front of it answers with statuses alone, and so does Discord while
/// it fails; only a code of its own says that a place is closed.
fn rejection(status: StatusCode, code: Option<u32>) -> Rejection {
    match (status, code) {
        (_, Some(UNKNOWN_CHANNEL)) => Rejection::PlaceGone,
        (_, Some(UNKNOWN_MESSAGE)) => Rejection::MessageGone,
        (_, Some(code)) if FORBIDDEN.contains(&code) => Rejection::Forbidden,
        (StatusCode::UNAUTHORIZED, None) => Rejection::Credentials,
        (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, None) | (_, Some(_)) => Rejection::Content,
        (_, None) => Rejection::Unexplained,
    }
}

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
    /// Reads an answer up to the cap, until then.
    ///
    /// # Errors
    /// Never for a broken body: the status may already say enough. See [`RestResponse::success`].
    pub(super) async fn read(mut response: Response, until: Instant) -> Result<Self, PostError> {
        let status = response.status;
        let headers = &response.headers;
        let bucket = bucket(headers);
        let retry_after = seconds(headers, "retry-after").or_else(|| seconds(headers, "x-ratelimit-reset-after"));
        let global = headers.get("x-ratelimit-global").is_some_and(|value| value != "false");
        let most = if status.is_success() { MAX_BODY } else { MAX_REFUSAL };
        let read = async {
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|failure| lost(&failure))? {
                if body.len() + chunk.len() > most {
                    return Err(PostError::Unsure("the answer of discord is too large".to_owned()));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        };
        let body = timeout_at(until, read).await.unwrap_or_else(|_| Err(late()));
        Ok(Self { status, bucket, retry_after, global, body })
    }

    /// Itself when the status is one of success.
    ///
    /// # Errors
    /// What the status means; or the body was lost on the way.
    pub(super) fn success(self) -> Result<Self, RestError> {
        if self.status.is_success() {
            return match self.body {
                Err(error) => Err(error.into()),
                Ok(_) => Ok(self),
            };
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(self.rate_limited().into());
        }
        if self.status.is_server_error() {
            return Err(PostError::Unsure(format!("discord answered {}", self.status.as_u16())).into());
        }
        Err(RestError::Refused(self.refused()))
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
        #[derive(Deserialize)]
        struct Message {
            id: WireMessageId,
        }
        let Message { id } = self.json()?;
        Ok(self.reply(PostResult::Message(events::message_id(id))))
    }

    /// The body, taken out.
    pub(super) fn take_body(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.body, Ok(Vec::new())).unwrap_or_default()
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
        PostError::Limited { retry_after, global }
    }

    /// Discord's code and message, capped.
    fn refused(&self) -> Refused {
        #[derive(Deserialize)]
        struct ErrorBody<'a> {
            #[serde(default)]
            code: Option<u32>,
            message: String,
            #[serde(default, borrow)]
            errors: Option<&'a RawValue>,
        }
        let Ok(refusal) = serde_json::from_slice::<ErrorBody<'_>>(self.bytes()) else {
            let words = self.status.canonical_reason().unwrap_or("no reason given").to_lowercase();
            return Refused { status: self.status, code: None, words };
        };
        let mut words = refusal.message;
        if let Some(errors) = refusal.errors {
            words.push_str(": ");
            words.push_str(errors.get());
        }
        let words = words.chars().take(MAX_WORDS).collect();
        Refused { status: self.status, code: refusal.code.filter(|code| *code != 0), words }
    }
}

/// The error for a body of success that is not what was asked for.
pub(super) fn undecodable(error: &serde_json::Error) -> PostError {
    let reason = crate::frame::reason(error);
    PostError::Unsure(format!("the answer of discord could not be read: {reason}"))
}

/// The error for a request without an answer. It holds neither the address nor the token.
pub(super) fn lost(failure: &Failure) -> PostError {
    let what = match failure.kind {
        FailureKind::Connect => "discord could not be reached",
        FailureKind::TimedOut => return late(),
        FailureKind::Broken => "the answer of discord was lost",
    };
    let cause: String = failure.cause.chars().take(MAX_WORDS).collect();
    let message = format!("{what}: {cause}");
    if failure.kind == FailureKind::Connect { PostError::Transient(message) } else { PostError::Unsure(message) }
}

/// The error for a request without an answer in time.
pub(super) fn late() -> PostError {
    PostError::Unsure("discord did not answer in time: operation timed out".to_owned())
}

fn bucket(headers: &HeaderMap) -> Option<Bucket> {
    let remaining = headers.get("x-ratelimit-remaining")?.to_str().ok()?.trim().parse().ok()?;
    let reset_after = seconds(headers, "x-ratelimit-reset-after")?;
    let id = headers.get("x-ratelimit-bucket").and_then(|id| id.to_str().ok()).map(str::to_owned);
    Some(Bucket { id, remaining, reset_after: reset_after.min(MAX_RETRY_AFTER) })
}

fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok().and_then(duration)
}

/// Seconds with a fraction; none for what is no duration.
fn duration(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(MAX_RETRY_AFTER))
}
