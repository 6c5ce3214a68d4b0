//! What others may tell and ask the outbox of a door.

use std::time::Duration;

use tokio::time::Instant;

use crate::messages::clearance::Clearance;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::runtime::handle::Reply;
use domain::delivery::Form;
use domain::ending::Unposted;
use domain::ids::{MessageId, Place, Timestamp, TurnId};
use domain::locale::Locale;
use domain::outgoing::Outgoing;
use ports::{PostError, PostRequest, PostResult};

/// How long the platform surely remembers a nonce. Later tries look into the channel first.
pub const NONCE_TRUST: Duration = Duration::from_secs(60);

/// The messages that the outbox handles.
pub enum OutboxMsg {
    /// The journal has an answer; its delivery must be reported back.
    Deliver {
        /// The turn, also the nonce.
        turn: TurnId,
        /// What to post.
        outgoing: Outgoing,
        /// When the turn began: what was posted before is no part of its answer.
        since: Timestamp,
        /// Look into the channel first: an earlier life may have posted some of it.
        check: bool,
        /// Messages that are known to be answers to others, for an answer that replies to nothing.
        others: Vec<MessageId>,
        /// Until then the platform surely remembers the nonces of an earlier life, which tell one answer from another with the same
        /// words; none for an answer that replies to a message.
        nonce_until: Option<Instant>,
        /// Some of it was shown while it was being written.
        drafted: bool,
        /// What the platform refused of it before: how often, and since when.
        refused: Option<(u32, Instant)>,
        /// What is posted in its place if the platform does not take it; none for what may stay unanswered.
        rescue: Option<Rescue>,
        /// Permission to post it.
        clearance: Clearance,
    },
    /// From the gateway: a notice that belongs to no turn. Its outcome is not reported.
    Notify {
        /// The message that it is about, also the nonce.
        about: MessageId,
        /// Where.
        place: Place,
        /// The sentence.
        text: String,
    },
    /// A post that answers no message; its outcome is the reply.
    Post {
        /// Its name and nonce, at most 22 characters: the same for the same post.
        name: String,
        /// What to post.
        outgoing: Outgoing,
        /// Its outcome.
        reply: Reply<Result<Delivery, Unposted>>,
    },
    /// A reaction to a message that nothing else answers. It is shown if that takes nothing from answers.
    React {
        /// The message.
        about: MessageId,
        /// Where it is.
        place: Place,
        /// See [`PostRequest::React`].
        emoji: String,
    },
    /// A turn began to think: typing is shown until it is answered, `Quiet`, or past `until`.
    Typing {
        /// Where.
        place: Place,
        /// Which turn.
        turn: TurnId,
        /// When it ends in any case.
        until: Deadline,
    },
    /// The answer of a turn is being streamed, and there is text to show. Repeated while it grows.
    Draft(Draft),
    /// A turn stopped thinking.
    Quiet(Place, TurnId),
    /// The turn stopped writing without an answer: its draft is no longer changed, and stands as it is.
    Forget(Place, TurnId),
    /// The turn is closed without an answer: nothing more is posted for it, and what stands of its answer is removed.
    Withdraw {
        /// Where.
        place: Place,
        /// The turn.
        turn: TurnId,
        /// An earlier life may have shown some of it.
        perhaps: bool,
    },
    /// Another process owns the turn: nothing more is posted for it, and what stands of its answer is left to that process.
    Release {
        /// Where.
        place: Place,
        /// The turn.
        turn: TurnId,
    },
    /// A read from the platform or a change of a role there, within its budgets. It may be tried a few times.
    Read(PostRequest, Reply<Result<PostResult, PostError>>),
    /// Commands: an answer to a command, which takes nothing from the door's budget of requests. One attempt.
    Interact(PostRequest, Reply<Result<PostResult, PostError>>),
    /// What we may do in this place, or anywhere at this door, may have changed.
    AccessChanged(Option<Place>),
}

/// What a member is told whose answer the platform does not take.
#[derive(Debug, Clone, Copy)]
pub struct Rescue {
    /// The moment from which on they are told.
    pub at: Instant,
    /// The language of the sentence.
    pub locale: Locale,
}

/// A turn that has text to show.
#[derive(Clone)]
pub struct Draft {
    /// Which turn.
    pub turn: TurnId,
    /// Where it is shown.
    pub place: Place,
    /// The message that it replies to.
    pub reply_to: Option<MessageId>,
    /// Where the text is.
    pub slot: Slot,
    /// An earlier life may have shown some of it.
    pub again: bool,
    /// When the turn ends in any case.
    pub until: Deadline,
}

/// A posted answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Our messages, in order.
    pub posted: Vec<MessageId>,
    /// When the first of them could be seen.
    pub first_visible: Instant,
    /// More than one message of ours answers the trigger.
    pub doubled: bool,
    /// What of the answer the platform took.
    pub form: Form,
}
