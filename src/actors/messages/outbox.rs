//! What others may tell and ask the outbox of a door.

use tokio::time::Instant;

use crate::actors::draft::Slot;
use crate::actors::handle::Reply;
use crate::domain::ending::Unposted;
use crate::domain::ids::{MessageId, Place, TurnId};
use crate::domain::outgoing::Outgoing;
use crate::ports::{PostError, PostRequest, PostResult};

/// What the outbox is told and asked.
pub enum OutboxMsg {
    /// The journal has an answer; its delivery must be reported back.
    Deliver {
        /// The turn, also the nonce.
        turn: TurnId,
        /// What to post.
        outgoing: Outgoing,
        /// Look into the channel first: an earlier life may have posted some of it.
        check: bool,
        /// Some of it was shown while it was being written.
        drafted: bool,
    },
    /// The gateway has a word for somebody that belongs to no turn. Nobody waits for it.
    Notify {
        /// The message that it is about, also the nonce.
        about: MessageId,
        /// Where.
        place: Place,
        /// The sentence.
        text: String,
    },
    /// Somebody has something to post that answers nobody, and waits for what becomes of it.
    Post {
        /// What it is: at most 22 characters, the same for the same post, and by that the nonce.
        name: String,
        /// What to post.
        outgoing: Outgoing,
        /// What became of it.
        reply: Reply<Result<Delivery, Unposted>>,
    },
    /// A turn began to think: typing is shown until it is answered, quiet, or late.
    Typing {
        /// Where.
        place: Place,
        /// Which turn.
        turn: TurnId,
        /// When it ends in any case.
        until: Instant,
    },
    /// The answer of a turn is being written, and there is something of it to show. Said again every now and then.
    Draft(Draft),
    /// A turn stopped thinking.
    Quiet(Place, TurnId),
    /// The turn is closed without an answer: one that nobody has begun to post is dropped, a draft is no longer changed.
    Forget(Place, TurnId),
    /// Somebody wants to read from the platform or to change a role there, within its budgets. It may be tried a few times.
    Read(PostRequest, Reply<Result<PostResult, PostError>>),
    /// Commands: an answer to a command, which takes nothing from the door's budget of requests. One attempt.
    Interact(PostRequest, Reply<Result<PostResult, PostError>>),
    /// What we may do in this place, or anywhere at this door, may have changed.
    AccessChanged(Option<Place>),
}

/// A turn that has text to show.
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
    pub until: Instant,
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
}
