//! The closed vocabulary of failure: why a model gave no completion, and why a turn ended without the answer it was asked for.
//! Decisions read these types; their labels are for logs, metrics and stored records.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rejection::Rejection;

/// Why one completion failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// No connection, or it broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// Too many requests.
    RateLimited,
    /// The provider failed (5xx, an error inside a 200).
    Provider,
    /// The provider does not implement what the request asks for (501).
    Unsupported,
    /// The provider or the model takes no tools.
    ToolsRefused,
    /// The answer was not a completion, or too large.
    Malformed,
    /// The key or the model was refused (401, 403, 404, or a 400 that says so).
    Refused,
    /// The account at the provider has no credit (402, or a 429 that says so).
    OutOfQuota,
    /// The request itself was refused (other 4xx).
    BadRequest,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// The provider's content filter refused the prompt.
    Filtered,
}

impl ModelErrorKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Connection,
        Self::Timeout,
        Self::RateLimited,
        Self::Provider,
        Self::Unsupported,
        Self::ToolsRefused,
        Self::Malformed,
        Self::Refused,
        Self::OutOfQuota,
        Self::BadRequest,
        Self::ContextOverflow,
        Self::Filtered,
    ];

    /// Another try of the same request may succeed.
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::Connection | Self::Timeout | Self::RateLimited | Self::Provider | Self::Malformed => true,
            Self::Unsupported
            | Self::ToolsRefused
            | Self::Refused
            | Self::OutOfQuota
            | Self::BadRequest
            | Self::ContextOverflow
            | Self::Filtered => false,
        }
    }

    /// It speaks of the model or of the way to it, not of the request.
    #[must_use]
    pub const fn is_about_the_model(self) -> bool {
        matches!(self, Self::Refused | Self::OutOfQuota | Self::Unsupported) || self.retryable()
    }

    /// The label in logs and metrics.
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
            Self::Refused => "refused",
            Self::OutOfQuota => "out_of_quota",
            Self::BadRequest => "bad_request",
            Self::ContextOverflow => "context_overflow",
            Self::Filtered => "content_filter",
        }
    }
}

/// Why a turn ended without the answer that it was asked for. Stored and logged as its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Every try of every row failed; the last one like this.
    Model(ModelErrorKind),
    /// There is no row left to ask.
    NoModel,
    /// The breakers of all remaining rows are open.
    BreakersOpen,
    /// No permit was free for a call that must not wait for one.
    NoPermit,
    /// The turn's deadline passed.
    Deadline,
    /// It waited for its lane longer than a turn may.
    WaitedTooLong,
    /// The model answered, but never with anything that people can read.
    Unusable,
    /// The provider's content filter stopped the answer.
    Filtered,
    /// Its person has more questions waiting than are kept.
    LaneFull,
    /// Its lane is busy, and it may not wait.
    LaneBusy,
    /// Nothing can be posted in its place now.
    PlaceClosed,
    /// Its platform refused to take the answer.
    PostRefused,
    /// Its task panicked.
    Panicked,
    /// It was offered as often as a turn may be, and nothing came of it.
    OffersExhausted,
    /// Nothing ended it within all bounds.
    Stalled,
    /// It was cut off after a tool that changes something may have run for it.
    MayHaveActed,
    /// An earlier life of the process left it, and it is too old to be answered.
    Interrupted,
    /// It waited for a decision, and its person wished that nothing of it be kept.
    TakenBack,
    /// What was said before it waited for a decision cannot be read.
    NotResumed,
    /// The place of an interjection cannot be read.
    PlaceUnreadable,
    /// The place of an interjection has no recent messages of people.
    NothingHeard,
    /// Something was reported to a dialogue that is over: a defect of this program.
    AlreadyOver,
    /// A stored record has a label that this version does not know.
    Unknown,
}

impl Ending {
    /// Every ending that is not about one kind of model failure.
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

    /// The label in logs, metrics and stored records.
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

    /// The ending with this label; [`Self::Unknown`] for one that no version wrote.
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

/// Which limit refused a turn. Stored and logged as its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverLimit {
    /// The one on messages.
    Messages,
    /// The one on tokens.
    Tokens,
    /// The one on tokens, by the estimates of turns that have not ended.
    Estimate,
    /// A stored record has a label that this version does not know.
    Unknown,
}

impl OverLimit {
    const ALL: [Self; 4] = [Self::Messages, Self::Tokens, Self::Estimate, Self::Unknown];

    /// The label in logs and stored records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "message limit",
            Self::Tokens => "token limit",
            Self::Estimate => "token limit, by estimate",
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

/// Why a turn was closed without anything being posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The message that triggered it was deleted.
    TriggerDeleted,
    /// It is over a limit, and its person was told so lately, or nobody asked for it.
    OverLimit(OverLimit),
    /// It ended like this, and its person does not hear of it: nobody asked for it, they were told so lately, or nothing can be
    /// said in its place.
    Silent(Ending),
    /// Nobody asked for it, and it may have been said already.
    NotRepeated,
    /// There was too much to do to take it, and its person was told so lately.
    NotTaken,
    /// Another process owns it now, and answers it.
    Fenced,
}

impl Dropped {
    /// The label of the outcome in logs and metrics.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::TriggerDeleted => "cancelled",
            Self::OverLimit(_) | Self::Silent(_) | Self::NotRepeated | Self::NotTaken | Self::Fenced => "dropped",
        }
    }

    /// The label of the reason in logs.
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

/// Why an answer will never be posted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unposted {
    /// The platform rejected it; its words are for the log.
    #[error("{0}: {1}")]
    Rejected(Rejection, String),
    /// No try worked within the time that an answer has; the last failure, for the log.
    #[error("given up: {0}")]
    GaveUp(String),
    /// It may stand in its place, and no way is left to know.
    #[error("it may have been posted, and no way is left to know")]
    Uncertain,
    /// The platform took it and did not name the message.
    #[error("the platform did not name the posted message")]
    Unnamed,
    /// Nothing of it can be shown at that door.
    #[error("nothing to post")]
    Nothing,
    /// Too many posts wait already.
    #[error("too many posts wait")]
    Busy,
    /// Its courier panicked again and again; the last words, for the log.
    #[error("the courier panicked: {0}")]
    Panicked(String),
    /// It failed the outbox again and again.
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
