//! Why there is no answer, before it is told in the words of a wire.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use domain::ending::{Ending, ModelErrorKind};
use domain::turn_event::NoAnswer;

/// How long to wait where there was too much to do.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// The longest wait that clients are told to take upon themselves.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// There is no place for a request now.
pub(super) const TOO_MUCH: &str = "there is too much to do; try again in a moment";
/// Clients of OpenAI do what it says.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Why a request has no answer. Texts are for whoever made the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was not let in.
    NotLetIn(StatusCode, String),
    /// It cannot be understood, or asks for what is not done here; what is wrong, and where.
    Bad {
        /// The place in the request.
        place: Option<String>,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The body is longer than what is taken.
    TooLarge(usize),
    /// There is no such model, or its asker may not ask it.
    NoModel(String),
    /// There is no such response, or it is another's.
    NoResponse(String),
    /// The same for the response that a request goes on from.
    NoPrevious(String),
    /// The conversation is longer than what the model takes.
    ContextTooLong,
    /// A content filter stopped it.
    Filtered(String),
    /// There is nothing at this path.
    NoEndpoint(String),
    /// There is, though not for this method.
    NoMethod(String),
    /// A limit of its asker, and how long it refuses them; none where that is not known, or for good.
    OverLimit(String, Option<Duration>),
    /// There is too much to do.
    Busy(String),
    /// The model's provider limits requests, also after our own tries; how long it asks to wait.
    UpstreamLimit(Option<Duration>),
    /// The model's provider refuses the key or the model that the operator configured.
    UpstreamRefused,
    /// The account at the model's provider has no credit.
    UpstreamQuota,
    /// Every model failed lately and is left alone for so long.
    Resting(Duration),
    /// The request alone has more tokens, about, than the key may use within the window.
    OverKey(u64, u64),
    /// It took too long.
    Late(String),
    /// The model failed.
    Model(String),
    /// Something here failed.
    Internal(String),
}

impl Failure {
    /// A request that cannot be understood.
    pub fn bad(place: &str, why: impl Into<String>) -> Self {
        Self::Bad { place: (!place.is_empty()).then(|| place.to_owned()), why: why.into() }
    }

    /// The end of a turn without an answer, in words for a program: what members are told is for them. `again` is the time after which
    /// asking again may help.
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

    /// Headers that tell clients when to ask again, in seconds, and whether that is worth a wait of theirs.
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

    /// What to tell whoever asked.
    pub fn text(&self) -> String {
        match self {
            Self::Bad { place: Some(place), why } => format!("{place}: {why}"),
            Self::TooLarge(most) => format!("the body is longer than the {most} bytes that are taken"),
            Self::NoModel(name) => format!("the model {name:?} does not exist, or this key may not ask it"),
            Self::NoEndpoint(path) => format!("there is nothing at {path}; see docs/api.md for what there is"),
            Self::NoMethod(path) => {
                format!("{path} is not for this method; the header Allow names those that it is for")
            }
            Self::NoResponse(id) => format!("there is no response {id:?} of this key"),
            Self::NoPrevious(id) => {
                format!("there is no response {id:?} of this key any more; send what was said as input")
            }
            // Proxies such as LiteLLM know a context that is too long by these first words.
            Self::ContextTooLong => {
                "This model's maximum context length is shorter than the conversation; send less of it".to_owned()
            }
            Self::UpstreamLimit(_) => "the model's provider limits requests; ask again later".to_owned(),
            Self::UpstreamQuota => {
                "the account at the model's provider has no credit; the operator has to mend that".to_owned()
            }
            Self::Resting(_) => "every model failed lately and is left alone for a while".to_owned(),
            Self::OverKey(tokens, most) => format!(
                "This model's maximum context length is {most} tokens for this key, which may use no more within its window; the request has about {tokens}. Send less, or ask the operator for a higher limit"
            ),
            Self::UpstreamRefused => {
                "the model's provider refuses the key or the model that is configured here; the operator has to mend that"
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
