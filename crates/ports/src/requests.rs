//! Requests to a door, and its replies.

use std::time::Duration;

use domain::command::Callback;

use domain::ids::{MessageId, Place};
use domain::incoming::Posted;
use domain::locale::Locale;
use domain::menu::{Choice, Spec};
use domain::outgoing::Piece;
use domain::question::Form;
use domain::rejection::Rejection;
use domain::restriction::{Appointment, Member};

/// One request to a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostRequest {
    /// Posts a message. Idempotent: the same nonce within some minutes returns the first message.
    Create {
        /// The place.
        place: Place,
        /// The content.
        piece: Piece,
        /// The message that it replies to. If that was deleted, the post is sent without it.
        reply_to: Option<MessageId>,
        /// The nonce, at most 25 characters.
        nonce: String,
    },
    /// Replaces the whole content of one of the bot's messages.
    Edit {
        /// The place.
        place: Place,
        /// The message.
        message: MessageId,
        /// The new content.
        piece: Piece,
    },
    /// Deletes one of the bot's messages.
    Delete {
        /// The place.
        place: Place,
        /// The message.
        message: MessageId,
    },
    /// Shows the typing indicator, for about ten seconds.
    Typing {
        /// The place.
        place: Place,
    },
    /// Adds a reaction to a message. Idempotent.
    React {
        /// The place.
        place: Place,
        /// The message.
        message: MessageId,
        /// One emoji, or `name:id` of a community's own.
        emoji: String,
    },
    /// Reads messages of one place, oldest first.
    History {
        /// The place.
        place: Place,
        /// The range.
        range: HistoryRange,
        /// Maximum number of messages, up to 100.
        limit: u8,
    },
    /// Reads one message. One that was removed is rejected with [`Rejection::MessageGone`].
    Fetch {
        /// The place.
        place: Place,
        /// The message.
        message: MessageId,
    },
    /// Reads data about a community or one of its places, for
    /// [`ShardedSource::complete`](super::ShardedSource::complete).
    FetchGuild {
        /// The community.
        community: String,
        /// The part; [`GuildField::Itself`] must be read before the others.
        aspect: GuildField,
    },
    /// Registers exactly these commands. No effect if they are registered already.
    RegisterCommands(Vec<Spec>),
    /// Tells the caller of a command, privately, that its answer will follow. The reply is [`PostResult::Already`] if
    /// it was deferred before.
    Defer(Callback),
    /// Answers a command or a pressed button with a form.
    OpenForm {
        /// The means to answer.
        to: Callback,
        /// The name under which the form is returned, at most 100 characters.
        name: String,
        /// The title; platforms cut it.
        title: String,
        /// The fields.
        form: Form,
        /// The language of the member.
        locale: Locale,
    },
    /// Answers a command privately, in place of [`PostRequest::Defer`]. Idempotent.
    Respond {
        /// The means to answer.
        to: Callback,
        /// The answer.
        piece: Piece,
        /// The fields to correct of the form that it answers, with reasons, for doors that show them there.
        problems: Vec<(String, String)>,
    },
    /// Offers completions while a member types a command.
    Suggest {
        /// The means to answer.
        to: Callback,
        /// The completions, best first.
        choices: Vec<Choice>,
    },
    /// Reads a member's roles. The reply is [`PostResult::Absent`] if the member left.
    Roles(Member),
    /// Gives a role to a member. Idempotent.
    AddRole(Appointment),
    /// Removes a role from a member. Idempotent.
    RemoveRole(Appointment),
}

/// A range of messages in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryRange {
    /// The newest messages.
    Newest,
    /// The oldest messages after this one.
    After(MessageId),
    /// The newest messages before this one.
    Before(MessageId),
}

/// The kind of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceKind {
    /// A place with rules of its own.
    Channel,
    /// A thread of this channel, with its rules.
    Thread(Place),
    /// It may be a thread of an unknown channel.
    Unknown,
}

/// A part of the data about a community.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuildField {
    /// Its language, and the permissions of its roles.
    Itself,
    /// The permission overrides of its places.
    Places,
    /// Its threads, with the place of each.
    Threads,
    /// The bot's own membership.
    Ourselves,
    /// One place: the parent of a thread, or the permission overrides of a channel.
    Place(Place),
}

/// The reply to a request, with the platform's rate limit.
#[derive(Debug, Clone, PartialEq)]
pub struct PostReply {
    /// The result.
    pub result: PostResult,
    /// The rate-limit bucket of the response headers, if present.
    pub bucket: Option<Bucket>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum PostResult {
    /// Success, without data.
    Done,
    /// It was done before; no effect now.
    Already,
    /// The posted or edited message.
    Message(MessageId),
    /// Messages, oldest first.
    Messages(Vec<Posted>),
    /// Ids of roles.
    Roles(Vec<String>),
    /// The person left, or the community no longer exists.
    Absent,
}

/// A rate-limit bucket of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The platform's id of the bucket: requests of the same place with the same id share it. `None` if the platform
    /// has no id.
    pub id: Option<String>,
    /// The remaining requests.
    pub remaining: u32,
    /// The time until it is full again.
    pub reset_after: Duration,
}

/// The error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Rate limited; nothing was done.
    #[error("rate limited for {retry_after:?}")]
    Limited {
        /// The time to wait.
        retry_after: Duration,
        /// The requests to which the limit applies.
        scope: LimitScope,
    },
    /// The platform rejected the request; nothing was done.
    #[error("{reason}: {message}")]
    Rejected {
        /// The reason.
        reason: Rejection,
        /// The platform's message, at most a few hundred characters, for logs.
        message: String,
        /// True if the platform counts the request against the bot: it bans senders of too many of them.
        counted: bool,
    },
    /// The request was sent without a conclusive answer; it may have taken effect.
    #[error("{0}")]
    Unsure(String),
    /// The request had no effect, and may work later.
    #[error("{0}")]
    Transient(String),
}

/// The requests to which a rate limit applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// All requests of the bot.
    Global,
    /// Requests of this kind.
    Route,
    /// Requests of this kind from all senders together. The platform does not count them against the bot.
    Shared,
}

impl PostRequest {
    /// Returns the place of a request. None if it has no place, or a credential of its own.
    #[must_use]
    pub const fn place(&self) -> Option<&Place> {
        match self {
            Self::Create { place, .. }
            | Self::Edit { place, .. }
            | Self::Delete { place, .. }
            | Self::Typing { place }
            | Self::React { place, .. }
            | Self::History { place, .. }
            | Self::Fetch { place, .. } => Some(place),
            Self::FetchGuild { .. }
            | Self::RegisterCommands(_)
            | Self::Defer(_)
            | Self::OpenForm { .. }
            | Self::Respond { .. }
            | Self::Suggest { .. }
            | Self::Roles(_)
            | Self::AddRole(_)
            | Self::RemoveRole(_) => None,
        }
    }

    /// Returns the community that a request names.
    #[must_use]
    pub fn community(&self) -> Option<&str> {
        match self {
            Self::FetchGuild { community, .. } => Some(community),
            Self::Roles(member) => Some(&member.guild),
            Self::AddRole(appointment) | Self::RemoveRole(appointment) => Some(&appointment.member.guild),
            _ => None,
        }
    }
}

impl PostError {
    /// Returns the error of a request that the platform did not receive.
    #[must_use]
    pub const fn unsent(reason: Rejection, message: String) -> Self {
        Self::Rejected { reason, message, counted: false }
    }

    /// True if the platform counts the request against the bot.
    #[must_use]
    pub const fn is_counted(&self) -> bool {
        match self {
            Self::Limited { scope, .. } => !matches!(scope, LimitScope::Shared),
            Self::Rejected { counted, .. } => *counted,
            Self::Unsure(_) | Self::Transient(_) => false,
        }
    }

    /// Returns the delay before the next try: at least the caller's backoff, and at least the delay that the platform
    /// requests.
    #[must_use]
    pub fn pause(&self, backoff: Duration) -> Duration {
        match self {
            Self::Limited { retry_after, .. } => backoff.max(*retry_after),
            Self::Rejected { .. } | Self::Unsure(_) | Self::Transient(_) => backoff,
        }
    }

    /// True if the message named in the request no longer exists.
    #[must_use]
    pub const fn is_message_gone(&self) -> bool {
        matches!(self, Self::Rejected { reason: Rejection::MessageGone, .. })
    }
}
