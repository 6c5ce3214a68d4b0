//! The jobs in the queues of a place, and their results.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::drafts::{Drawn, Origin};
use super::found::Anchor;
use super::pace::Track;
use super::pacer::Payer;
use crate::messages::clearance::Clearance;
use crate::messages::outbox::{Delivery, Rescue};
use domain::delivery::{BESIDE_AFTER, Form, Standing, lets_pass};
use domain::ending::Unposted;
use domain::ids::{MessageId, Person, Timestamp, TurnId};
use domain::outgoing::{Outgoing, Part};
use domain::rejection::Rejection;
use ports::Subject;
use ports::shares::Share;

/// One message to be delivered: an answer, a notice or a post.
#[derive(Clone)]
pub(super) struct Job {
    pub task: Task,
    /// The person whose turn it is; none for a job without a turn.
    pub person: Option<Person>,
    pub outgoing: Outgoing,
    /// The time at which its turn began; none for a job without a turn.
    pub since: Option<Timestamp>,
    /// True if the channel must be read before anything is posted.
    pub check: bool,
    /// Messages that are known to answer others.
    pub others: Vec<MessageId>,
    /// The time until which the platform certainly remembers the nonces of an earlier try; none if its messages are
    /// replies.
    pub nonce_until: Option<Instant>,
    /// The known state of its draft in the channel.
    pub drawn: Option<Drawn>,
    /// True if each of its existing messages is finished, and only the rest is to be posted.
    pub edited: bool,
    /// True if a courier panicked with it.
    pub panicked: bool,
    /// The tries so far.
    pub tries: Tries,
    /// The time at which it was made.
    pub queued: Instant,
    /// Its length in messages of its place.
    pub length: Length,
    /// The notice that replaces it if the platform refuses it.
    pub rescue: Option<Rescue>,
    /// Permission to post it.
    pub clearance: Clearance,
    /// Its share of a bound on jobs, if one applies; clones hold it together.
    #[expect(dead_code, reason = "dropping it returns the share")]
    pub share: Option<Arc<Share<Payer>>>,
}

/// The length of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// A few messages at most.
    Short,
    /// Several messages, so that short answers of its place may pass it.
    Long,
}

/// The tries of an answer so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Tries {
    /// The time at which its first courier left, or an earlier process met the first refusal.
    pub begun: Option<Instant>,
    /// The number of temporary refusals.
    pub refused: u32,
    /// The time of the first of them.
    pub since: Option<Instant>,
    /// The time of the first post with an unknown outcome; none once the outcome is known.
    pub unsure: Option<Instant>,
    /// The best form that is not refused permanently.
    pub best: Form,
}

impl Tries {
    /// Restores the tries of an answer from the number of its refusals and the time of the first.
    pub(super) fn before((refused, since): (u32, Instant)) -> Self {
        Self { begun: Some(since), refused, since: Some(since), ..Self::default() }
    }

    /// Returns the time since the first refusal.
    pub(super) fn refused_for(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Job {
    /// Creates a job without tries.
    pub(super) fn new(task: Task, outgoing: Outgoing) -> Self {
        Self {
            task,
            person: None,
            outgoing,
            since: None,
            check: false,
            others: Vec::new(),
            nonce_until: None,
            drawn: None,
            edited: false,
            panicked: false,
            tries: Tries::default(),
            queued: Instant::now(),
            length: Length::Short,
            rescue: None,
            clearance: Clearance::default(),
            share: None,
        }
    }

    /// Returns the feature that distinguishes its messages from others in their place.
    pub(super) fn anchor(&self) -> Anchor<'_> {
        match (&self.outgoing.reply_to, self.since) {
            (Some(trigger), _) if self.is_of_earlier_draft() => Anchor::Growing(trigger),
            (Some(trigger), _) => Anchor::Trigger(trigger),
            (None, Some(since)) => Anchor::Words(since, &self.others),
            (None, None) => Anchor::Nothing,
        }
    }

    /// Returns the standing of its delivery; `has_extras` if its whole form has cards or files.
    pub(super) fn standing(&self, tries: &Tries, has_extras: bool) -> Standing {
        // A post with buttons is never reduced: the approver must see the whole request.
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

    /// True if some of it may be in the channel.
    fn may_have_begun(&self) -> bool {
        self.check || self.edited || self.panicked || self.drawn.is_some() || self.tries.begun.is_some()
    }

    /// True if an earlier outbox may have posted further messages of its draft.
    pub(super) fn is_of_earlier_draft(&self) -> bool {
        self.drawn.as_ref().is_some_and(|drawn| drawn.origin == Origin::EarlierOutbox)
    }

    /// True if the answers of its place pass it.
    pub(super) fn goes_beside(&self) -> bool {
        lets_pass(self.tries.refused, self.tries.refused_for(), BESIDE_AFTER)
    }

    /// True if it has known messages in the channel. It then begins with edits, which wait for no other answer.
    pub(super) fn begins_with_edits(&self) -> bool {
        !self.edited && self.drawn.as_ref().is_some_and(|drawn| !drawn.shown.is_empty())
    }
}

/// The time for which short answers pass a long one.
pub(super) const PASSED_FOR: Duration = Duration::from_secs(20);

/// Takes the next job of a queue: the first one, or if that is long and new, the first short one that passes no answer to
/// its own person. A platform accepts few messages of a place in a time, so long answers would delay all others there.
pub(super) fn take_next(jobs: &mut VecDeque<Job>) -> Option<Job> {
    let first = jobs.front()?;
    let waits = first.length == Length::Long && !first.may_have_begun() && first.queued.elapsed() < PASSED_FOR;
    if !waits {
        return jobs.pop_front();
    }
    let mut earlier = HashSet::new();
    let short = jobs.iter().position(|job| earlier.insert(job.person.as_ref()) && job.length == Length::Short);
    jobs.remove(short.unwrap_or(0))
}

/// Removes the matching jobs from a queue; the others keep their order.
pub(super) fn take_out(jobs: &mut VecDeque<Job>, is_it: impl Fn(&Task) -> bool) -> VecDeque<Job> {
    let (taken, kept) = std::mem::take(jobs).into_iter().partition(|job| is_it(&job.task));
    *jobs = kept;
    taken
}

/// The purpose of a job; also the source of its nonce.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Turn(TurnId),
    /// A draft: the present text of an unfinished answer.
    Draft(TurnId),
    Notice(MessageId),
    /// A named post that answers no message.
    Post(String),
}

impl Task {
    /// Returns the trigger's id with the number of the piece: unique for the bot, at most 25 characters. A platform
    /// returns the first message for a known nonce, so a piece whose message was removed needs another nonce.
    pub(super) fn nonce(&self, piece: usize, again: bool) -> String {
        let end = if again { "r" } else { "" };
        match self {
            Self::Turn(turn) | Self::Draft(turn) => format!("{}-{piece}{end}", turn.id),
            Self::Notice(about) => format!("{}-n{piece}{end}", about.id),
            Self::Post(name) => format!("{name}-{piece}{end}"),
        }
    }
}

/// Returns the subject of a delivery. The size of its first part distinguishes an answer from the apology that
/// replaces it.
pub(super) fn subject(task: &Task, outgoing: &Outgoing) -> Subject {
    let size = match outgoing.parts.first() {
        Some(Part::Text { text }) => text.len(),
        Some(_) | None => 0,
    };
    Subject::of(&(task, outgoing.parts.len(), size))
}

/// The return of a courier.
pub struct Returned {
    pub(super) job: Job,
    /// The queue that sent it; none for a job beside the queues.
    pub(super) track: Option<Track>,
    pub(super) end: End,
}

/// The result of a job.
pub(super) enum End {
    /// The complete answer is in the channel.
    Posted(Delivery),
    /// Another process owns its turn.
    Fenced,
    /// Each existing message is finished and listed in the job; the rest is still to be posted.
    EditsOnly,
    /// The trigger was deleted, and none of the answer was posted.
    TriggerGone,
    /// The platform refused it for now, for this reason.
    Refused(Unposted),
    /// It cannot be posted, for this reason.
    Failed(Unposted),
    /// The place is closed, with the platform's message; the job lists the messages posted before.
    Closed(Rejection, String),
    /// The courier panicked, with this message.
    Panicked(String),
}

impl Returned {
    /// Returns the result of a panicked courier. Its posts are unknown, so the only further try reads the channel
    /// first.
    pub(super) fn panicked(job: Job, track: Option<Track>, panic: String) -> Self {
        let drawn = job.drawn.map(|drawn| Drawn { shown: Vec::new(), doubtful: true, ..drawn });
        Self { job: Job { check: true, drawn, edited: false, ..job }, track, end: End::Panicked(panic) }
    }
}
