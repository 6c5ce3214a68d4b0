//! What waits in the queue of a place, and what comes of it.

use tokio::time::Instant;

use super::drafts::Drawn;
use super::found::Anchor;
use super::pace::Track;
use crate::actors::messages::outbox::Delivery;
use crate::domain::ending::Unposted;
use crate::domain::ids::{MessageId, Timestamp, TurnId};
use crate::domain::outgoing::{Outgoing, Part};
use crate::domain::rejection::Rejection;
use crate::ports::Subject;

/// One answer on its way.
#[derive(Clone)]
pub(super) struct Job {
    pub task: Task,
    pub outgoing: Outgoing,
    /// When its turn began; none for what belongs to no turn.
    pub since: Option<Timestamp>,
    /// Look into the channel before anything is posted.
    pub check: bool,
    /// Messages that are known to be answers to others.
    pub others: Vec<MessageId>,
    /// Until then the platform surely remembers the nonces of an earlier try; none where its messages reply to something.
    pub nonce_until: Option<Instant>,
    /// What the channel shows of it already, as far as that is known.
    pub drawn: Option<Drawn>,
    /// Every message of it that stands there is finished; the rest is to be posted.
    pub edited: bool,
    /// A courier panicked with it.
    pub panicked: bool,
}

impl Job {
    /// A job that no courier has begun.
    pub(super) fn new(task: Task, outgoing: Outgoing) -> Self {
        Self {
            task,
            outgoing,
            since: None,
            check: false,
            others: Vec::new(),
            nonce_until: None,
            drawn: None,
            edited: false,
            panicked: false,
        }
    }

    /// What tells its messages from others in their place.
    pub(super) fn anchor(&self) -> Anchor<'_> {
        match (&self.outgoing.reply_to, self.since) {
            (Some(trigger), _) => Anchor::Trigger(trigger),
            (None, Some(since)) => Anchor::Words(since, &self.others),
            (None, None) => Anchor::Nothing,
        }
    }

    /// Messages of it are known to stand in the channel, so it begins with edits, which wait for no other answer.
    pub(super) fn begins_with_edits(&self) -> bool {
        !self.edited && self.drawn.as_ref().is_some_and(|drawn| !drawn.shown.is_empty())
    }
}

/// What a job is for; also its nonce.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Turn(TurnId),
    /// Not an answer yet: what there is of it is shown.
    Draft(TurnId),
    Notice(MessageId),
    /// Something that answers no message, by its name.
    Post(String),
}

impl Task {
    /// The trigger's own id and the number of the piece: unique for the bot, and within 25 characters. A platform gives the first
    /// message back for a nonce that it knows, so a piece whose message was removed needs another one.
    pub(super) fn nonce(&self, piece: usize, again: bool) -> String {
        let end = if again { "r" } else { "" };
        match self {
            Self::Turn(turn) | Self::Draft(turn) => format!("{}-{piece}{end}", turn.id),
            Self::Notice(about) => format!("{}-n{piece}{end}", about.id),
            Self::Post(name) => format!("{name}-{piece}{end}"),
        }
    }
}

/// What a delivery is about. The size of its first part tells an answer from the apology that takes its place.
pub(super) fn subject(task: &Task, outgoing: &Outgoing) -> Subject {
    let size = match outgoing.parts.first() {
        Some(Part::Text { text }) => text.len(),
        Some(_) | None => 0,
    };
    Subject::of(&(task, outgoing.parts.len(), size))
}

/// How a courier comes back.
pub struct Returned {
    pub(super) job: Job,
    /// The queue that sent it.
    pub(super) track: Track,
    pub(super) end: End,
}

/// What became of a job.
pub(super) enum End {
    /// All of it stands in the channel.
    Posted(Delivery),
    /// Every message that stands there is finished; the job knows them, and the rest is still to be posted.
    Begun,
    /// The message that it answers was deleted, and nothing of it was posted.
    TriggerGone,
    /// It cannot be posted, for this reason.
    Failed(Unposted),
    /// The place is closed to us, in the platform's words; the job knows what was posted before.
    Closed(Rejection, String),
    /// The courier panicked, with these words.
    Panicked(String),
}

impl Returned {
    /// A courier panicked. What it had posted by then is not known, so the one further try looks into the channel first.
    pub(super) fn panicked(job: Job, track: Track, panic: String) -> Self {
        let drawn = job.drawn.map(|drawn| Drawn { shown: Vec::new(), doubtful: true, ..drawn });
        Self { job: Job { check: true, drawn, edited: false, ..job }, track, end: End::Panicked(panic) }
    }
}
