//! What waits in the queue of a place, and what comes of it.

use super::drafts::Drawn;
use super::pace::Pace;
use crate::actors::messages::outbox::Delivery;
use crate::domain::ids::{MessageId, TurnId};
use crate::domain::outgoing::Outgoing;

/// One answer on its way.
#[derive(Clone)]
pub(super) struct Job {
    pub task: Task,
    pub outgoing: Outgoing,
    pub check: bool,
    /// What the channel shows of it already, when it was drafted.
    pub drawn: Option<Drawn>,
    /// A courier panicked with it.
    pub panicked: bool,
}

impl Job {
    /// A job that nobody has begun.
    pub(super) fn new(task: Task, outgoing: Outgoing) -> Self {
        Self { task, outgoing, check: false, drawn: None, panicked: false }
    }
}

/// What a job is for; also its nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    Turn(TurnId),
    /// Not an answer yet: what there is of it is shown.
    Draft(TurnId),
    Notice(MessageId),
    /// Something that answers nobody, by its name.
    Post(String),
}

impl Task {
    /// The trigger's own id and the number of the piece: unique for the bot, and within 25 characters.
    pub(super) fn nonce(&self, piece: usize) -> String {
        match self {
            Self::Turn(turn) | Self::Draft(turn) => format!("{}-{piece}", turn.id),
            Self::Notice(about) => format!("{}-n{piece}", about.id),
            Self::Post(name) => format!("{name}-{piece}"),
        }
    }
}

/// How a courier comes back.
pub struct Returned {
    pub(super) task: Task,
    pub(super) result: Result<Delivery, String>,
    pub(super) pace: Pace,
    /// The place itself refused us.
    pub(super) closed: bool,
    /// The job shall be tried once more.
    pub(super) again: Option<Box<Job>>,
}

impl Returned {
    /// A courier panicked. Nobody knows what it had posted by then, so the one further try looks into the channel first.
    pub(super) fn panicked(job: Job, panic: &str) -> Self {
        let (task, first) = (job.task.clone(), !job.panicked);
        let drawn = job.drawn.map(|drawn| Drawn { message: None, text: String::new(), doubtful: true, ..drawn });
        let again = first.then(|| Box::new(Job { check: true, drawn, panicked: true, ..job }));
        let result = Err(format!("the courier panicked: {panic}"));
        Self { task, result, pace: Pace::default(), closed: false, again }
    }
}
