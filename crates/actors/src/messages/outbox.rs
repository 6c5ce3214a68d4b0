//! Messages of the outbox of a door.

use std::time::Duration;

use tokio::time::Instant;

use crate::messages::clearance::Clearance;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::delivery::Form;
use domain::ending::Unposted;
use domain::ids::{MessageId, Person, Place, Timestamp, TurnId};
use domain::locale::Locale;
use domain::outgoing::{Outgoing, Piece};
use ports::{AccessScope, PlaceKind, PostError, PostRequest, PostResult};

/// The time for which the platform reliably deduplicates by nonce. Later attempts search the channel first.
pub const NONCE_TRUST: Duration = Duration::from_secs(60);

/// The messages that the outbox handles.
pub enum OutboxMsg {
    /// From the journal: delivers an answer and reports the delivery back.
    Deliver {
        /// The turn; its id is also the nonce.
        turn: TurnId,
        /// The person whose turn it is: their answers stay in order.
        person: Person,
        /// The content to post.
        outgoing: Outgoing,
        /// The start of the turn: earlier posts are not part of its answer.
        since: Timestamp,
        /// True if the outbox must search the channel first: a previous life may have posted some of the answer.
        check: bool,
        /// Messages known to be answers to other turns, for an answer that replies to no message.
        others: Vec<MessageId>,
        /// The end of the time in which the platform reliably recognizes the nonces of a previous life, which
        /// distinguish answers with identical text; `None` for an answer that replies to a message.
        nonce_until: Option<Instant>,
        /// True if some of it was shown as a draft.
        drafted: bool,
        /// Previous refusals by the platform: their number, and the time of the first.
        refused: Option<(u32, Instant)>,
        /// The replacement to post if the platform refuses the answer; `None` if the turn may stay unanswered.
        rescue: Option<Rescue>,
        /// The clearance to post it.
        clearance: Clearance,
    },
    /// From the gateway: posts a notice that belongs to no turn. Its outcome is not reported.
    Notify {
        /// The message that the notice refers to; its id is also the nonce.
        about: MessageId,
        /// The place of the notice.
        place: Place,
        /// The text.
        text: String,
    },
    /// Posts a message that answers no other; the reply carries the outcome.
    Post {
        /// The name and nonce, at most 22 characters: equal for the same post.
        name: String,
        /// The content to post.
        outgoing: Outgoing,
        /// The reply with the outcome.
        reply: Reply<Result<Delivery, Unposted>>,
    },
    /// Adds a reaction to a message that gets no other answer. It is sent only if it takes no request budget from
    /// answers.
    React {
        /// The message.
        about: MessageId,
        /// The place of the message.
        place: Place,
        /// See [`PostRequest::React`].
        emoji: String,
    },
    /// A turn began to think: the typing indicator is shown until its answer, `Quiet`, or `until`.
    Typing {
        /// The place of the turn.
        place: Place,
        /// The turn.
        turn: TurnId,
        /// The latest end of the indicator.
        until: Deadline,
    },
    /// The answer of a turn is being streamed, and there is text to show. Sent again while the text grows.
    Draft(TurnDraft),
    /// A turn stopped thinking.
    Quiet(Place, TurnId),
    /// The turn stopped writing without an answer: its draft stays as it is.
    Forget(Place, TurnId),
    /// The turn is closed without an answer: nothing more is posted for it, and the shown part of its answer is
    /// removed.
    Withdraw {
        /// The place of the turn.
        place: Place,
        /// The turn.
        turn: TurnId,
        /// True if a previous life may have shown some of the answer.
        perhaps: bool,
    },
    /// Another process owns the turn: nothing more is posted for it, and the shown part of its answer is left to that
    /// process.
    Release {
        /// The place of the turn.
        place: Place,
        /// The turn.
        turn: TurnId,
    },
    /// Reads from the platform or changes a role there, within the request budgets. It may be retried a few times.
    Read(PostRequest, Reply<Result<PostResult, PostError>>),
    /// Replaces the content of a message with a status, unless the platform's limits have no room for drafts now. The
    /// sender has a newer status soon.
    Status {
        /// The place of the message.
        place: Place,
        /// The message.
        message: MessageId,
        /// The content.
        piece: Piece,
    },
    /// Returns the kind of a place of the door, as far as it is known.
    Kind(Place, Reply<PlaceKind>),
    /// From commands: answers a command, without use of the door's request budget. One attempt.
    Interact(PostRequest, Reply<Result<PostResult, PostError>>),
    /// The bot's permissions may have changed there.
    AccessChanged(AccessScope),
}

named!(OutboxMsg: Deliver, Notify, Post, React, Typing, Draft, Quiet, Forget, Withdraw, Release, Read, Status, Kind, Interact, AccessChanged);

/// The notice for a member whose answer the platform refuses.
#[derive(Debug, Clone, Copy)]
pub struct Rescue {
    /// The time from which the notice is due.
    pub at: Instant,
    /// The language of the notice.
    pub locale: Locale,
}

/// A turn with text to show.
#[derive(Clone)]
pub struct TurnDraft {
    /// The turn.
    pub turn: TurnId,
    /// The place of the draft.
    pub place: Place,
    /// The message that it replies to.
    pub reply_to: Option<MessageId>,
    /// The slot of the text.
    pub slot: Slot,
    /// True if a previous life may have shown some of the answer.
    pub again: bool,
    /// The latest end of the turn.
    pub until: Deadline,
}

/// A posted answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The bot's messages, in order.
    pub posted: Vec<MessageId>,
    /// The time at which the first of them became visible.
    pub first_visible: Instant,
    /// True if more than one message of the bot answers the trigger.
    pub doubled: bool,
    /// The form of the answer that the platform accepted.
    pub form: Form,
}
