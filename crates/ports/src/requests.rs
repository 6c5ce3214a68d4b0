//! What a door can be asked to do, and what it answers.

use std::time::Duration;

use domain::command::Callback;

use domain::ids::{MessageId, Place};
use domain::incoming::Posted;
use domain::menu::{Choice, Spec};
use domain::outgoing::Piece;
use domain::rejection::Rejection;
use domain::restriction::{Appointment, Member};

/// One request to a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostRequest {
    /// Posts a message. The same nonce within some minutes gives the first message back instead of a second one.
    Create {
        /// Where.
        place: Place,
        /// What it carries.
        piece: Piece,
        /// The message that it replies to; if that is gone, the post still goes out.
        reply_to: Option<MessageId>,
        /// At most 25 characters.
        nonce: String,
    },
    /// Replaces everything that one of our messages carries.
    Edit {
        /// Where.
        place: Place,
        /// Which.
        message: MessageId,
        /// What it carries from then on.
        piece: Piece,
    },
    /// Removes one of our messages.
    Delete {
        /// Where.
        place: Place,
        /// Which.
        message: MessageId,
    },
    /// Shows that we are typing, for about ten seconds.
    Typing {
        /// Where.
        place: Place,
    },
    /// Reacts to a message. Repeating it changes nothing.
    React {
        /// Where.
        place: Place,
        /// To which message.
        message: MessageId,
        /// One emoji, or `name:id` of a community's own.
        emoji: String,
    },
    /// Reads messages of one place, oldest first.
    History {
        /// Where.
        place: Place,
        /// Which of them.
        range: HistoryRange,
        /// At most 100.
        limit: u8,
    },
    /// Reads one message.
    Fetch {
        /// Where.
        place: Place,
        /// Which.
        message: MessageId,
    },
    /// Reads what the beginning of a session has of a community, for [`ShardedSource::complete`](super::ShardedSource::complete).
    FetchGuild {
        /// The community.
        community: String,
        /// What of it; [`GuildField::Itself`] comes before the others.
        aspect: GuildField,
    },
    /// Offers these commands to members and no others. Nothing is changed where they are offered already.
    RegisterCommands(Vec<Spec>),
    /// Says, to whoever ran a command alone, that its answer will come. Answered by [`PostResult::Already`] when somebody has
    /// said so before.
    Defer(Callback),
    /// Answers a command, to whoever ran it alone, in the place of what [`PostRequest::Defer`] said. Repeating it changes
    /// nothing.
    Respond {
        /// The command.
        to: Callback,
        /// The answer.
        piece: Piece,
    },
    /// Offers choices to somebody who is typing a command.
    Suggest {
        /// What is typed.
        to: Callback,
        /// The choices, the best first.
        choices: Vec<Choice>,
    },
    /// Reads the roles of somebody. Answered by [`PostResult::Absent`] when they are not there any more.
    Roles(Member),
    /// Gives a role to somebody, who may hold it already.
    AddRole(Appointment),
    /// Takes a role from somebody, who need not hold it.
    RemoveRole(Appointment),
}

/// Which messages of a place are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryRange {
    /// The newest.
    Newest,
    /// The oldest of those after this one.
    After(MessageId),
    /// The newest of those before this one.
    Before(MessageId),
}

/// What can be read about a community.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuildField {
    /// Its language, and what its roles may do.
    Itself,
    /// What each of its places changes of that.
    Places,
    /// Its threads, and the place that each belongs to.
    Threads,
    /// What we are there.
    Ourselves,
}

/// The answer to a request, and what the platform said of its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct PostReply {
    /// What came back.
    pub result: PostResult,
    /// The rate-limit bucket of the response's headers; none without them.
    pub bucket: Option<Bucket>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub enum PostResult {
    /// Nothing but success.
    Done,
    /// It was done before; nothing was done now.
    Already,
    /// The posted or edited message.
    Message(MessageId),
    /// Messages, oldest first.
    Messages(Vec<Posted>),
    /// Ids of roles.
    Roles(Vec<String>),
    /// The person, or the whole community, is not there any more.
    Absent,
}

/// A rate-limit bucket of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The platform's name for it: requests of the same place with the same name share what is left. None where the platform has none.
    pub id: Option<String>,
    /// Requests left in it.
    pub remaining: u32,
    /// Time until it is full again.
    pub reset_after: Duration,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Too many requests. Nothing was done.
    #[error("rate limited for {retry_after:?}")]
    Limited {
        /// The time to wait.
        retry_after: Duration,
        /// The limit holds for every request, not only for those of this kind.
        global: bool,
    },
    /// The platform rejected the request. Nothing was done.
    #[error("{reason}: {message}")]
    Rejected {
        /// Why.
        reason: Rejection,
        /// The platform's words, at most some hundred characters, for logs.
        message: String,
    },
    /// It may have been done: it was sent, and no answer came that says so.
    #[error("{0}")]
    Unsure(String),
    /// It surely was not done, and may work later.
    #[error("{0}")]
    Transient(String),
}

impl PostError {
    /// The message that the request names does not exist any more.
    #[must_use]
    pub const fn is_message_gone(&self) -> bool {
        matches!(self, Self::Rejected { reason: Rejection::MessageGone, .. })
    }
}
