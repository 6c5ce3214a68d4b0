//! Handles: addresses that are made before any actor and outlive every restart of it.
//!
//! A handle refuses a message at once if its actor is down, or if the mailbox holds as many messages as the actor's row of the tree
//! allows ([`Mailbox`]). It never waits and never buffers. `cast` gives the message back to a sender that decides; `tell` is for
//! messages whose loss is mended, as the comment at the call says. Both count what is refused, by actor and reason.
//!
//! A handle takes the messages that others may send. An actor's own events (timers, results of its tasks) go another way, which only
//! its own context has, and are never refused. The counts are exact, because the guard that counts a message travels with it and is
//! dropped with it, also when a crash throws a whole mailbox away.

mod stats;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use ractor::MessagingErr;
use tokio::sync::oneshot;

pub use self::stats::{Failure, HUNG, LifeState, Stats};
pub(crate) use self::stats::{Hung, Next};
use crate::tree::{Mailbox, Row, Scope, WhenFull};
use ports::Fault;

/// Where an answer goes. Dropping it answers "nobody".
pub type Reply<T> = oneshot::Sender<T>;

/// The reason why a message was not put into a mailbox. The message comes back.
pub enum Refused<M> {
    /// The actor is not running.
    Down(M),
    /// The mailbox holds as many messages as its row allows.
    Full(M),
}

impl<M> Refused<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            Self::Down(message) | Self::Full(message) => message,
        }
    }
}

impl<M> fmt::Debug for Refused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down(_) => "Down",
            Self::Full(_) => "Full",
        })
    }
}

/// Why a call got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The actor is not running, or died with the question in its mailbox.
    #[error("the actor is down")]
    Down,
    /// The actor's mailbox is full.
    #[error("the actor has too much to do")]
    Full,
    /// No answer in time.
    #[error("the actor did not answer in time")]
    Timeout,
}

/// What an actor's mailbox holds.
pub(crate) enum Envelope<M, E> {
    /// A message of another actor, and its place in the depth count.
    Message(M, Slot),
    /// An event of the actor's own timers and tasks, and its place in the depth count.
    Event(E, Slot),
    /// A failure that was ordered for this actor, and its place in the depth count.
    Fault(Fault, Slot),
    /// The supervisor's own timer: start the child of this name again.
    Revive(Arc<str>),
    /// The supervisor's own timer: look for children whose handlers hang.
    Look,
}

/// One place in a mailbox, until what it holds was handled or dropped.
pub(crate) struct Slot {
    stats: Arc<Stats>,
    /// True for a message of another actor, which the capacity bounds.
    bounded: bool,
}

impl Slot {
    /// A place for an event of the actor itself, or for an ordered fault.
    pub(crate) fn take(stats: &Arc<Stats>) -> Self {
        Self::new(stats, false)
    }

    /// A place for a message of another actor; `None` if as many as the row allows are taken.
    fn claim(stats: &Arc<Stats>) -> Option<Self> {
        stats.claim().then(|| Self::new(stats, true))
    }

    fn new(stats: &Arc<Stats>, bounded: bool) -> Self {
        stats.depth.fetch_add(1, Ordering::Relaxed);
        Self { stats: Arc::clone(stats), bounded }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.stats.depth.fetch_sub(1, Ordering::Relaxed);
        if self.bounded {
            self.stats.release();
        }
    }
}

/// One life of an actor, as its senders see it: its own events go another way.
trait Life<M>: Send + Sync {
    /// Gives the message back if this life is over.
    fn put(&self, message: M, slot: Slot) -> Result<(), M>;
}

struct Messages<M: Send + 'static, E: Send + 'static>(ractor::ActorRef<Envelope<M, E>>);

impl<M: Send + 'static, E: Send + 'static> Life<M> for Messages<M, E> {
    fn put(&self, message: M, slot: Slot) -> Result<(), M> {
        match self.0.cast(Envelope::Message(message, slot)) {
            Err(MessagingErr::SendErr(Envelope::Message(message, _))) => Err(message),
            // A mailbox refuses nothing else, and nothing else was put.
            Err(_) | Ok(()) => Ok(()),
        }
    }
}

/// The address of one actor, valid across its restarts. Cheap to clone. It takes the actor's messages and nothing else.
pub struct Handle<M: Send + 'static> {
    inner: Arc<Inner<M>>,
}

struct Inner<M: Send + 'static> {
    actor: RwLock<Option<Arc<dyn Life<M>>>>,
    stats: Arc<Stats>,
}

impl<M: Send + 'static> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M: Send + 'static> Handle<M> {
    /// A handle for one actor of a row below the path of its supervisor; it is down until that starts the actor.
    #[must_use]
    pub fn new(row: &Row, above: &str, scope: Scope) -> Self {
        let inner = Inner { actor: RwLock::new(None), stats: Arc::new(Stats::new(row, above, scope)) };
        Self { inner: Arc::new(inner) }
    }

    /// Puts a message into the mailbox, for a sender that has to decide about one that is refused.
    ///
    /// A full mailbox whose row says [`WhenFull::Drop`] drops the message and gives `Ok`: a message that waits asks for the same.
    ///
    /// # Errors
    /// The actor is not running, or its mailbox is full. The message comes back, and is counted as refused.
    pub fn cast(&self, message: M) -> Result<(), Refused<M>> {
        let stats = &self.inner.stats;
        // What comes back may be dropped by the caller, and its drop may cast elsewhere: no lock is held meanwhile.
        let actor = self.inner.actor.read().clone();
        let Some(actor) = actor else {
            stats.refused_down();
            return Err(Refused::Down(message));
        };
        let Some(slot) = Slot::claim(stats) else {
            stats.refused_full();
            return match stats.mailbox.when_full {
                WhenFull::Refuse => Err(Refused::Full(message)),
                WhenFull::Drop => Ok(()),
            };
        };
        actor.put(message, slot).map_err(|message| {
            stats.refused_down();
            Refused::Down(message)
        })
    }

    /// Puts a message into the mailbox. One that is refused is dropped and counted, so the comment at the call says what mends that.
    pub fn tell(&self, message: M) {
        drop(self.cast(message));
    }

    /// Asks, and waits for the answer at most `within`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call<T>(&self, question: impl FnOnce(Reply<T>) -> M, within: Duration) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        self.cast(question(reply)).map_err(|refused| match refused {
            Refused::Down(_) => CallError::Down,
            Refused::Full(_) => CallError::Full,
        })?;
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(CallError::Down),
            Err(_) => Err(CallError::Timeout),
        }
    }

    /// What is counted about this actor.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.inner.stats
    }

    /// The bound of its mailbox.
    #[must_use]
    pub fn mailbox(&self) -> Mailbox {
        self.inner.stats.mailbox
    }

    pub(crate) fn connect<E: Send + 'static>(&self, actor: ractor::ActorRef<Envelope<M, E>>) {
        // A new life asks for all that it needs to know.
        self.inner.stats.forget_overflow();
        *self.inner.actor.write() = Some(Arc::new(Messages(actor)));
        self.inner.stats.enter(LifeState::Running);
    }
}

/// What a supervisor needs of a child's handle, whatever its messages are.
pub(crate) trait Address: Send + Sync {
    /// The actor is down from now on.
    fn disconnect(&self);
    /// What is counted about it.
    fn stats(&self) -> &Arc<Stats>;
}

impl<M: Send + 'static> Address for Handle<M> {
    fn disconnect(&self) {
        *self.inner.actor.write() = None;
    }

    fn stats(&self) -> &Arc<Stats> {
        &self.inner.stats
    }
}
