//! Responses of the request API and their meaning.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serenity::model::id::MessageId as WireMessageId;
use tokio::time::{Instant, timeout_at};

use super::events;
use crate::surrogates;
use domain::rejection::Rejection;
use http_client::{Failure, FailureKind, Response};
use ports::{Bucket, LimitScope, PostError, PostReply, PostResult};

/// The largest response that is read, in bytes. A hundred messages with all attachments stay below it.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// The largest error body that is read, in bytes; of a longer one only the status counts.
const MAX_REFUSAL: usize = 64 * 1024;
/// The longest text of Discord in an error, in characters.
const MAX_WORDS: usize = 300;
/// The longest accepted retry delay.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// Discord's code for an unknown channel.
const UNKNOWN_CHANNEL: u32 = 10_003;
/// Discord's code for an unknown message.
const UNKNOWN_MESSAGE: u32 = 10_008;
/// Discord's codes for missing access and missing permissions.
const FORBIDDEN: [u32; 2] = [50_001, 50_013];
/// Discord's code for a reply in a channel whose history the bot may not read.
const REPLY_UNREAD: u32 = 160_002;
/// The retry delay after a rate limit without a stated delay.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The reason for a failed request, with details private to this crate.
#[derive(Debug)]
pub(super) enum RestError {
    /// Discord answered with an error status.
    Refused(Refused),
    /// There was no response, or it asks to retry later.
    Other(PostError),
}

/// An error status and Discord's explanation.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    /// Discord's error code; `None` if missing or zero.
    code: Option<u32>,
    /// Discord's message, at most [`MAX_WORDS`] characters.
    words: String,
    /// True if Discord names the reply reference as the mistake.
    of_reply: bool,
}

impl RestError {
    /// Returns Discord's error code, if the body has one.
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
    fn from(Refused { status, code, words, of_reply }: Refused) -> Self {
        let code_text = code.map_or_else(String::new, |code| format!("code {code}: "));
        let message = format!("status {}: {code_text}{words}", status.as_u16());
        let reason = if of_reply { Rejection::Reply } else { rejection(status, code) };
        // Discord bans senders of many requests with these statuses; rate limits are errors of their own.
        let counted = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        Self::Rejected { reason, message, counted }
    }
}

/// Returns the meaning of a status and an error code. A proxy in front of Discord, and Discord itself during an outage,
/// sends statuses alone; only an error code proves that a place is closed.
fn rejection(status: StatusCode, code: Option<u32>) -> Rejection {
    match (status, code) {
        (_, Some(UNKNOWN_CHANNEL)) => Rejection::PlaceGone,
        (_, Some(UNKNOWN_MESSAGE)) => Rejection::MessageGone,
        (_, Some(REPLY_UNREAD)) => Rejection::Reply,
        (_, Some(code)) if FORBIDDEN.contains(&code) => Rejection::Forbidden,
        (StatusCode::UNAUTHORIZED, None) => Rejection::Credentials,
        (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, None) | (_, Some(_)) => Rejection::Content,
        (_, None) => Rejection::Unexplained,
    }
}

#[derive(Debug)]
pub(super) struct RestResponse {
    pub(super) status: StatusCode,
    bucket: Option<Bucket>,
    retry_after: Option<Duration>,
    /// True for a global rate limit, according to the headers.
    global: bool,
    /// True for a rate limit of all senders together.
    shared: bool,
    body: Result<Vec<u8>, PostError>,
}

impl RestResponse {
    /// Reads a response up to the cap, until the deadline `until`.
    ///
    /// # Errors
    /// Never for a broken body: the status may be sufficient. See [`RestResponse::success`].
    pub(super) async fn read(mut response: Response, until: Instant) -> Result<Self, PostError> {
        let status = response.status;
        let headers = &response.headers;
        let bucket = bucket(headers);
        let retry_after = seconds(headers, "retry-after").or_else(|| seconds(headers, "x-ratelimit-reset-after"));
        let global = headers.get("x-ratelimit-global").is_some_and(|value| value != "false");
        let shared = headers.get("x-ratelimit-scope").is_some_and(|scope| scope == "shared");
        let most = if status.is_success() { MAX_BODY } else { MAX_REFUSAL };
        let read = async {
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|failure| lost(&failure))? {
                if body.len() + chunk.len() > most {
                    return Err(PostError::Unsure("the answer of discord is too large".to_owned()));
                }
                body.extend_from_slice(&chunk);
            }
            surrogates::mend(&mut body);
            Ok(body)
        };
        let body = timeout_at(until, read).await.unwrap_or_else(|_| Err(late()));
        Ok(Self { status, bucket, retry_after, global, shared, body })
    }

    #[cfg(test)]
    pub(super) fn without_headers(status: StatusCode, mut body: Vec<u8>) -> Self {
        surrogates::mend(&mut body);
        Self { status, bucket: None, retry_after: None, global: false, shared: false, body: Ok(body) }
    }

    /// Returns itself if the status is a success.
    ///
    /// # Errors
    /// The meaning of the status, or the body was lost in transit.
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

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// It is something else. The request may have succeeded, so the caller should retry.
    pub(super) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, PostError> {
        serde_json::from_slice(self.bytes()).map_err(|error| undecodable(&error))
    }

    /// Creates a reply with the limits from the headers.
    pub(super) fn reply(&self, result: PostResult) -> PostReply {
        PostReply { result, bucket: self.bucket.clone() }
    }

    /// Returns the reply that names the message in the body.
    ///
    /// # Errors
    /// The body contains no message.
    pub(super) fn posted(&self) -> Result<PostReply, PostError> {
        #[derive(Deserialize)]
        struct Message {
            id: WireMessageId,
        }
        let Message { id } = self.json()?;
        Ok(self.reply(PostResult::Message(events::message_id(id))))
    }

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
        // A body that is not Discord's comes from the proxy in front of it, which blocks the whole IP address.
        let global = self.global || told.as_ref().is_none_or(|limit| limit.global);
        let retry_after = told
            .and_then(|limit| limit.retry_after)
            .and_then(duration)
            .or(self.retry_after)
            .unwrap_or(DEFAULT_RETRY_AFTER)
            .min(MAX_RETRY_AFTER);
        let scope = match (global, self.shared) {
            (true, _) => LimitScope::Global,
            (false, true) => LimitScope::Shared,
            (false, false) => LimitScope::Route,
        };
        PostError::Limited { retry_after, scope }
    }

    /// Returns Discord's code and message, capped.
    fn refused(&self) -> Refused {
        #[derive(Deserialize)]
        struct ErrorBody<'a> {
            #[serde(default)]
            code: Option<u32>,
            message: String,
            #[serde(default, borrow)]
            errors: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Mistakes {
            message_reference: Option<IgnoredAny>,
        }
        let Ok(refusal) = serde_json::from_slice::<ErrorBody<'_>>(self.bytes()) else {
            let words = self.status.canonical_reason().unwrap_or("no reason given").to_lowercase();
            return Refused { status: self.status, code: None, words, of_reply: false };
        };
        let mistakes = refusal.errors.and_then(|errors| serde_json::from_str::<Mistakes>(errors.get()).ok());
        let of_reply = mistakes.is_some_and(|mistakes| mistakes.message_reference.is_some());
        let mut words = refusal.message;
        if let Some(errors) = refusal.errors {
            words.push_str(": ");
            words.push_str(errors.get());
        }
        let words = words.chars().take(MAX_WORDS).collect();
        Refused { status: self.status, code: refusal.code.filter(|code| *code != 0), words, of_reply }
    }
}

/// Returns the error for a success response with an unexpected body.
pub(super) fn undecodable(error: &serde_json::Error) -> PostError {
    let reason = crate::frame::reason(error);
    PostError::Unsure(format!("the answer of discord could not be read: {reason}"))
}

/// Returns the error for a request without a response. It contains neither the address nor the token.
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

/// Returns the error for a request that timed out.
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

/// Converts seconds with a fraction; `None` if they are not a duration.
fn duration(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(MAX_RETRY_AFTER))
}
