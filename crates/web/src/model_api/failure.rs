//! Failures of requests, independent of the wire format.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use domain::ending::{Ending, ModelErrorKind};
use domain::turn_event::NoAnswer;

/// Retry delay under overload.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// The longest delay for which clients are told to retry by themselves.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The text of an overload.
pub(super) const TOO_MUCH: &str = "there is too much to do; try again in a moment";
/// OpenAI's clients obey this header.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The reason for a missing answer. Texts are shown to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not authorized.
    NotLetIn(StatusCode, String),
    /// It is invalid or not supported.
    Bad {
        /// The field of the request.
        place: Option<String>,
        /// The problem and its solution.
        why: String,
    },
    /// The body exceeds this size, in bytes.
    TooLarge(usize),
    /// The model does not exist, or the key may not use it.
    NoModel(String),
    /// The response does not exist, or belongs to another holder.
    NoResponse(String),
    /// The same for the response that a request continues from.
    NoPrevious(String),
    /// The conversation exceeds the model's context.
    ContextTooLong,
    /// A content filter refused it.
    Filtered(String),
    /// There is no such path.
    NoEndpoint(String),
    /// The path does not support this method.
    NoMethod(String),
    /// A limit of the caller, and the time until it admits the next request; `None` if unknown or never.
    OverLimit(String, Option<Duration>),
    /// Overload.
    Busy(String),
    /// The model's provider limits requests, also after retries; the delay that it asks for.
    UpstreamLimit(Option<Duration>),
    /// The provider rejects the configured key or model.
    UpstreamRefused,
    /// The account at the provider has no credit.
    UpstreamQuota,
    /// The circuit breakers of all models are open for this time.
    Resting(Duration),
    /// The request alone needs about this many tokens, more than the key may use within its window.
    OverKey(u64, u64),
    /// A timeout.
    Late(String),
    /// The model failed.
    Model(String),
    /// An internal error.
    Internal(String),
}

impl Failure {
    /// Creates the failure of an invalid request.
    pub fn bad(place: &str, why: impl Into<String>) -> Self {
        Self::Bad { place: (!place.is_empty()).then(|| place.to_owned()), why: why.into() }
    }

    /// Converts the end of a turn without an answer, with texts for programs instead of members. `again` is the time
    /// after which a retry may succeed.
    pub fn of(why: NoAnswer, again: Option<Duration>) -> Self {
        let busy = |why: &str| Self::Busy(why.to_owned());
        let ending = match why {
            NoAnswer::OverLimit(limit) => {
                return Self::OverLimit(format!("this key is over its {}", limit.as_str()), None);
            }
            NoAnswer::NotTaken => return busy(TOO_MUCH),
            NoAnswer::Ended(ending) => ending,
        };
        match ending {
            Ending::Model(ModelErrorKind::ContextOverflow) => Self::ContextTooLong,
            Ending::Model(ModelErrorKind::Filtered) | Ending::Filtered => {
                Self::Filtered("the content filter of the model's provider stopped this".to_owned())
            }
            Ending::Model(ModelErrorKind::BadRequest) => {
                Self::bad("", "the model's provider refused the request; a parameter may not suit that model")
            }
            Ending::Model(ModelErrorKind::RateLimited) => Self::UpstreamLimit(again),
            Ending::Model(ModelErrorKind::Refused) => Self::UpstreamRefused,
            Ending::Model(ModelErrorKind::OutOfQuota) => Self::UpstreamQuota,
            Ending::Model(ModelErrorKind::Timeout) | Ending::Deadline => {
                Self::Late("the model did not answer in time".to_owned())
            }
            Ending::Model(ModelErrorKind::NoMemory) => busy("other answers hold the memory for an answer of this size"),
            Ending::Model(kind) => Self::Model(format!("the model's provider failed: {}", kind.as_str())),
            Ending::Unusable => Self::Model("the model answered with nothing that can be used".to_owned()),
            Ending::NoModel => busy("no model can be asked now"),
            Ending::BreakersOpen => Self::Resting(again.unwrap_or(AGAIN)),
            Ending::NoPermit | Ending::WaitedTooLong | Ending::LaneFull | Ending::LaneBusy | Ending::PlaceClosed => {
                busy(TOO_MUCH)
            }
            ending => Self::Internal(format!("the request ended without an answer: {}", ending.as_str())),
        }
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotLetIn(status, _) => *status,
            Self::Bad { .. } | Self::NoPrevious(_) | Self::ContextTooLong | Self::OverKey(..) | Self::Filtered(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoModel(_) | Self::NoResponse(_) | Self::NoEndpoint(_) => StatusCode::NOT_FOUND,
            Self::NoMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::OverLimit(..) | Self::UpstreamLimit(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy(_) | Self::Resting(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Model(_) | Self::UpstreamRefused | Self::UpstreamQuota => StatusCode::BAD_GATEWAY,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the headers that tell clients when to retry, in seconds, and whether to do so by themselves.
    pub fn headers(&self) -> HeaderMap {
        let (wait, tried_here) = match self {
            Self::OverLimit(_, wait) => (*wait, false),
            Self::Resting(rest) => (Some(*rest), false),
            Self::Busy(_) | Self::NotLetIn(StatusCode::SERVICE_UNAVAILABLE, _) => (Some(AGAIN), false),
            Self::UpstreamLimit(wait) => (*wait, true),
            Self::UpstreamRefused | Self::UpstreamQuota | Self::Model(_) | Self::Late(_) => (None, true),
            _ => return HeaderMap::new(),
        };
        let is_worth_it = !tried_here && wait.is_some_and(|wait| wait <= WAIT_MAX);
        let worth = HeaderValue::from_static(if is_worth_it { "true" } else { "false" });
        let mut headers = HeaderMap::from_iter([(SHOULD_RETRY, worth)]);
        if let Some(wait) = wait {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        headers
    }

    /// Returns the text for the client.
    pub fn text(&self) -> String {
        match self {
            Self::Bad { place: Some(place), why } => format!("{place}: {why}"),
            Self::TooLarge(most) => format!("the body is longer than the maximum of {most} bytes"),
            Self::NoModel(name) => format!("the model {name:?} does not exist, or this key may not ask it"),
            Self::NoEndpoint(path) => format!("there is nothing at {path}; see docs/api.md for what there is"),
            Self::NoMethod(path) => {
                format!("{path} is not for this method; the header Allow names those that it is for")
            }
            Self::NoResponse(id) => format!("there is no response {id:?} of this key"),
            Self::NoPrevious(id) => {
                format!("there is no response {id:?} of this key any more; send what was said as input")
            }
            // Proxies such as LiteLLM recognize this error by its first words.
            Self::ContextTooLong => {
                "This model's maximum context length is shorter than the conversation; send less of it".to_owned()
            }
            Self::UpstreamLimit(_) => "the model's provider limits requests; ask again later".to_owned(),
            Self::UpstreamQuota => {
                "the account at the model's provider has no credit; the operator must fix that".to_owned()
            }
            Self::Resting(_) => "every model failed recently and is paused".to_owned(),
            Self::OverKey(tokens, most) => format!(
                "This model's maximum context length is {most} tokens for this key, which may use no more within its window; the request has about {tokens}. Send less, or ask the operator for a higher limit"
            ),
            Self::UpstreamRefused => {
                "the model's provider refuses the key or the model that is configured here; the operator must fix that"
                    .to_owned()
            }
            Self::NotLetIn(_, why)
            | Self::Bad { place: None, why }
            | Self::Filtered(why)
            | Self::OverLimit(why, _)
            | Self::Busy(why)
            | Self::Late(why)
            | Self::Model(why)
            | Self::Internal(why) => why.clone(),
        }
    }
}
