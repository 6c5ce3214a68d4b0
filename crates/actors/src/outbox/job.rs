//! What waits in the queue of a place, and what comes of it.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::drafts::Drawn;
use super::found::Anchor;
use super::pace::Track;
use crate::messages::clearance::Clearance;
use crate::messages::outbox::{Delivery, Rescue};
use domain::delivery::{BESIDE_AFTER, Form, Standing, lets_pass};
use domain::ending::Unposted;
use domain::ids::{MessageId, Timestamp, TurnId};
use domain::outgoing::{Outgoing, Part};
use domain::rejection::Rejection;
use ports::Subject;

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
    /// What was tried of it so far.
    pub tries: Tries,
    /// What is told in its place if the platform does not take it.
    pub rescue: Option<Rescue>,
    /// Permission to post it.
    pub clearance: Clearance,
}

/// What was tried of an answer so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Tries {
    /// When its first courier left, or an earlier life of the process met the first refusal.
    pub begun: Option<Instant>,
    /// The refusals that may pass.
    pub refused: u32,
    /// When the first of them came.
    pub since: Option<Instant>,
    /// When a post first got no answer that says whether it stands; none once that is known.
    pub unsure: Option<Instant>,
    /// The best form that is not refused for good.
    pub best: Form,
}

impl Tries {
    /// Those of an answer that was refused before: how often, and since when.
    pub(super) fn before((refused, since): (u32, Instant)) -> Self {
        Self { begun: Some(since), refused, since: Some(since), ..Self::default() }
    }

    /// The time since the first refusal.
    pub(super) fn refused_for(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
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
            tries: Tries::default(),
            rescue: None,
            clearance: Clearance::default(),
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

    /// What stands of its delivery. `has_extras` when its whole form has cards or files.
    pub(super) fn standing(&self, tries: &Tries, has_extras: bool) -> Standing {
        // What has buttons asks for a decision about all that it shows: it stands there whole or not at all.
        let asks = self.outgoing.parts.iter().any(|part| matches!(part, Part::Buttons { .. }));
        Standing {
            refused: tries.refused,
            refused_for: tries.refused_for(),
            has_extras: has_extras && !asks,
            sign_due: self.rescue.map(|rescue| rescue.at <= Instant::now()),
            is_answer: !self.outgoing.apology,
            has_message: matches!(self.task, Task::Turn(_)) && self.outgoing.reply_to.is_some(),
        }
    }

    /// The answers of its place do not wait for it.
    pub(super) fn goes_beside(&self) -> bool {
        lets_pass(self.tries.refused, self.tries.refused_for(), BESIDE_AFTER)
    }

    /// Messages of it are known to stand in the channel, so it begins with edits, which wait for no other answer.
    pub(super) fn begins_with_edits(&self) -> bool {
        !self.edited && self.drawn.as_ref().is_some_and(|drawn| !drawn.shown.is_empty())
    }
}

/// Takes some jobs out of a queue; the others keep their order.
pub(super) fn take_out(jobs: &mut VecDeque<Job>, is_it: impl Fn(&Task) -> bool) -> VecDeque<Job> {
    let (taken, kept) = std::mem::take(jobs).into_iter().partition(|job| is_it(&job.task));
    *jobs = kept;
    taken
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
    /// The queue that sent it; none for one that goes on beside them.
    pub(super) track: Option<Track>,
    pub(super) end: End,
}

/// What became of a job.
pub(super) enum End {
    /// All of it stands in the channel.
    Posted(Delivery),
    /// Another process owns its turn.
    Fenced,
    /// Every message that stands there is finished; the job knows them, and the rest is still to be posted.
    Begun,
    /// The message that it answers was deleted, and nothing of it was posted.
    TriggerGone,
    /// The platform refused it for now, for this reason.
    Refused(Unposted),
    /// It cannot be posted, for this reason.
    Failed(Unposted),
    /// The place is closed to us, in the platform's words; the job knows what was posted before.
    Closed(Rejection, String),
    /// The courier panicked, with these words.
    Panicked(String),
}

impl Returned {
    /// A courier panicked. What it had posted by then is not known, so the one further try looks into the channel first.
    pub(super) fn panicked(job: Job, track: Option<Track>, panic: String) -> Self {
        let drawn = job.drawn.map(|drawn| Drawn { shown: Vec::new(), doubtful: true, ..drawn });
        Self { job: Job { check: true, drawn, edited: false, ..job }, track, end: End::Panicked(panic) }
    }
}
