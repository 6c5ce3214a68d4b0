//! The closed set of failure types: the reasons why a model gave no completion, and why a turn ended without the
//! requested answer. Decisions match on these types; the labels are for logs, metrics and stored records.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rejection::Rejection;

/// The reason why one completion failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// The connection failed or was interrupted.
    Connection,
    /// The request timed out.
    Timeout,
    /// Too many requests.
    RateLimited,
    /// The provider failed (5xx, an error inside a 200).
    Provider,
    /// The provider does not implement a feature of the request (501).
    Unsupported,
    /// The provider or the model does not support tools.
    ToolsRefused,
    /// The response was not a completion.
    Malformed,
    /// The response exceeds a bound, in total or in its number of tool calls. A question can ask for such a response.
    TooLarge,
    /// Other answers hold the memory that the response requires.
    NoMemory,
    /// The key or the model was rejected (401, 403, 404, or a 400 that says so).
    Refused,
    /// The account at the provider has no credit (402, or a 429 that says so).
    OutOfQuota,
    /// The request itself was rejected (other 4xx).
    BadRequest,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// The provider's content filter rejected the prompt.
    Filtered,
}

impl ModelErrorKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Connection,
        Self::Timeout,
        Self::RateLimited,
        Self::Provider,
        Self::Unsupported,
        Self::ToolsRefused,
        Self::Malformed,
        Self::TooLarge,
        Self::NoMemory,
        Self::Refused,
        Self::OutOfQuota,
        Self::BadRequest,
        Self::ContextOverflow,
        Self::Filtered,
    ];

    /// True if a retry of the same request may succeed.
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::Connection
            | Self::Timeout
            | Self::RateLimited
            | Self::Provider
            | Self::Malformed
            | Self::NoMemory => true,
            Self::Unsupported
            | Self::ToolsRefused
            | Self::TooLarge
            | Self::Refused
            | Self::OutOfQuota
            | Self::BadRequest
            | Self::ContextOverflow
            | Self::Filtered => false,
        }
    }

    /// True if the failure concerns the model or the connection to it, not the request.
    #[must_use]
    pub const fn is_about_the_model(self) -> bool {
        match self {
            Self::NoMemory => false,
            Self::Refused | Self::OutOfQuota | Self::Unsupported => true,
            kind => kind.retryable(),
        }
    }

    /// Returns the label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Provider => "provider",
            Self::Unsupported => "unsupported",
            Self::ToolsRefused => "tools_refused",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::NoMemory => "no_memory",
            Self::Refused => "refused",
            Self::OutOfQuota => "out_of_quota",
            Self::BadRequest => "bad_request",
            Self::ContextOverflow => "context_overflow",
            Self::Filtered => "content_filter",
        }
    }
}

/// The reason why a turn ended without the requested answer. Stored and logged as its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Every attempt at every row failed; this is the last failure.
    Model(ModelErrorKind),
    /// There is no row left to try.
    NoModel,
    /// The circuit breakers of all remaining rows are open.
    BreakersOpen,
    /// No permit was available for a call that must not be queued.
    NoPermit,
    /// The turn's deadline passed.
    Deadline,
    /// The turn was queued in its lane for longer than allowed.
    WaitedTooLong,
    /// The model replied, but without readable text.
    Unusable,
    /// The provider's content filter stopped the answer.
    Filtered,
    /// The member has more queued questions than the lane holds.
    LaneFull,
    /// The lane is busy, and the turn must not be queued.
    LaneBusy,
    /// The place accepts no posts at present.
    PlaceClosed,
    /// The platform rejected the answer.
    PostRefused,
    /// The task of the turn panicked.
    Panicked,
    /// The turn was offered the maximum number of times without a result.
    OffersExhausted,
    /// The turn did not end within any of its bounds.
    Stalled,
    /// The turn was interrupted after a tool call that may have changed something.
    MayHaveActed,
    /// The turn was open before a restart and is too old to be answered.
    Interrupted,
    /// The turn was suspended for a decision, and its member requested erasure.
    TakenBack,
    /// The dialogue of the suspended turn is unreadable.
    NotResumed,
    /// The place of an interjection is unreadable.
    PlaceUnreadable,
    /// The place of an interjection has no recent messages from people.
    NothingHeard,
    /// A report reached a dialogue that is over: a defect of this program.
    AlreadyOver,
    /// A stored record has a label that this version does not support.
    Unknown,
}

impl Ending {
    /// All endings that are not about one kind of model failure.
    const PLAIN: [Self; 22] = [
        Self::NoModel,
        Self::BreakersOpen,
        Self::NoPermit,
        Self::Deadline,
        Self::WaitedTooLong,
        Self::Unusable,
        Self::Filtered,
        Self::LaneFull,
        Self::LaneBusy,
        Self::PlaceClosed,
        Self::PostRefused,
        Self::Panicked,
        Self::OffersExhausted,
        Self::Stalled,
        Self::MayHaveActed,
        Self::Interrupted,
        Self::TakenBack,
        Self::NotResumed,
        Self::PlaceUnreadable,
        Self::NothingHeard,
        Self::AlreadyOver,
        Self::Unknown,
    ];

    /// Returns the label in logs, metrics and stored records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model(kind) => kind.as_str(),
            Self::NoModel => "no model",
            Self::BreakersOpen => "breaker open",
            Self::NoPermit => "no permit free",
            Self::Deadline => "deadline",
            Self::WaitedTooLong => "waited too long",
            Self::Unusable => "unusable_answer",
            Self::Filtered => "filtered",
            Self::LaneFull => "lane full",
            Self::LaneBusy => "lane busy",
            Self::PlaceClosed => "place closed",
            Self::PostRefused => "post refused",
            Self::Panicked => "panic",
            Self::OffersExhausted => "crashed again and again",
            Self::Stalled => "no progress",
            Self::MayHaveActed => "may have acted",
            Self::Interrupted => "interrupted",
            Self::TakenBack => "taken back",
            Self::NotResumed => "not resumed",
            Self::PlaceUnreadable => "the place cannot be read",
            Self::NothingHeard => "nothing is being talked about",
            Self::AlreadyOver => "already_over",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the ending with this label; [`Self::Unknown`] for a label that no version wrote.
    #[must_use]
    pub fn of_label(label: &str) -> Self {
        let kinds = ModelErrorKind::ALL.into_iter().map(Self::Model);
        kinds.chain(Self::PLAIN).find(|ending| ending.as_str() == label).unwrap_or(Self::Unknown)
    }
}

impl Serialize for Ending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Ending {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|label| Self::of_label(&label))
    }
}

/// The limit that refused a turn. Stored and logged as its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverLimit {
    /// The limit on messages.
    Messages,
    /// The limit on tokens.
    Tokens,
    /// The limit on tokens, by the estimates of open turns.
    Estimate,
    /// The limit of an account beside the member's window.
    Account,
    /// A stored record has a label that this version does not support.
    Unknown,
}

impl OverLimit {
    const ALL: [Self; 5] = [Self::Messages, Self::Tokens, Self::Estimate, Self::Account, Self::Unknown];

    /// Returns the label in logs and stored records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "message limit",
            Self::Tokens => "token limit",
            Self::Estimate => "token limit, by estimate",
            Self::Account => "limit of an account",
            Self::Unknown => "unknown",
        }
    }
}

impl Serialize for OverLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for OverLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let label = String::deserialize(deserializer)?;
        Ok(Self::ALL.into_iter().find(|limit| limit.as_str() == label).unwrap_or(Self::Unknown))
    }
}

/// The reason why a turn was closed without a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The message that triggered the turn was deleted.
    TriggerDeleted,
    /// The turn exceeds a limit, and its member was notified recently or did not request it.
    OverLimit(OverLimit),
    /// The turn ended for this reason without a notice: it was not requested, its member was notified recently, or its
    /// place accepts no posts.
    Silent(Ending),
    /// The turn was not requested, and may have been posted already.
    NotRepeated,
    /// The turn was rejected because of overload, and its member was notified recently.
    NotTaken,
    /// Another process owns the turn and answers it.
    Fenced,
}

impl Dropped {
    /// Returns the label of the outcome in logs and metrics.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::TriggerDeleted => "cancelled",
            Self::OverLimit(_) | Self::Silent(_) | Self::NotRepeated | Self::NotTaken | Self::Fenced => "dropped",
        }
    }

    /// Returns the label of the reason in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TriggerDeleted => "trigger deleted",
            Self::OverLimit(limit) => limit.as_str(),
            Self::Silent(why) => why.as_str(),
            Self::NotRepeated => "not said a second time",
            Self::NotTaken => "too much to do",
            Self::Fenced => "another process owns it",
        }
    }
}

/// The reason why an answer will never be posted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unposted {
    /// The platform rejected it, with the platform's message for the log.
    #[error("{0}: {1}")]
    Rejected(Rejection, String),
    /// No attempt succeeded within the time limit of an answer; the last failure, for the log.
    #[error("given up: {0}")]
    GaveUp(String),
    /// The answer may already be posted, and there is no way left to check.
    #[error("it may have been posted, and no way is left to know")]
    Uncertain,
    /// The platform accepted the post without returning a message id.
    #[error("the platform did not name the posted message")]
    Unnamed,
    /// The door cannot display any part of the answer.
    #[error("nothing to post")]
    Nothing,
    /// Too many posts are queued.
    #[error("too many posts wait")]
    Busy,
    /// The courier panicked repeatedly; the last panic message, for the log.
    #[error("the courier panicked: {0}")]
    Panicked(String),
    /// The answer crashed the outbox repeatedly.
    #[error("the outbox failed at it again and again")]
    Poison,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::turn::Outcome;

    #[test]
    fn each_ending_is_stored_as_its_label_and_read_again() {
        let all: Vec<Ending> = ModelErrorKind::ALL.into_iter().map(Ending::Model).chain(Ending::PLAIN).collect();
        assert_eq!(all.iter().map(|ending| ending.as_str()).collect::<HashSet<_>>().len(), all.len());
        for ending in all {
            let outcome = Outcome::Apologised(ending);
            let stored = format!("{{\"apologised\":\"{}\"}}", ending.as_str());
            assert_eq!(serde_json::to_string(&outcome).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Outcome>(&stored).unwrap(), outcome);
        }
        let of_another_version = "{\"apologised\":\"what nobody knows\"}";
        assert_eq!(serde_json::from_str::<Outcome>(of_another_version).unwrap(), Outcome::Apologised(Ending::Unknown));
    }

    #[test]
    fn each_limit_is_stored_as_its_label_and_read_again() {
        for limit in OverLimit::ALL {
            let outcome = Outcome::Refused(limit);
            let stored = format!("{{\"refused\":\"{}\"}}", limit.as_str());
            assert_eq!(serde_json::to_string(&outcome).unwrap(), stored);
            assert_eq!(serde_json::from_str::<Outcome>(&stored).unwrap(), outcome);
        }
        let of_another_version = "{\"refused\":\"what nobody knows\"}";
        assert_eq!(serde_json::from_str::<Outcome>(of_another_version).unwrap(), Outcome::Refused(OverLimit::Unknown));
    }
}
