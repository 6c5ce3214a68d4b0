//! Handles: addresses that are made before any actor and outlive every restart of it.
//!
//! A handle whose actor is down gives the message back at once; it never buffers. It takes the messages that others may send;
//! what an actor tells itself (timers, results of its tasks) goes another way, which only its own context has. The mailbox depth is exact, because the guard that counts
//! a message travels with it and is dropped with it, also when a crash throws a whole mailbox away.

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
use crate::tree::{Row, Scope};
use ports::Fault;

/// Where an answer goes. Dropping it answers "nobody".
pub type Reply<T> = oneshot::Sender<T>;

/// The actor is not running. The message comes back.
pub struct Undelivered<M>(pub M);

impl<M> fmt::Debug for Undelivered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Undelivered")
    }
}

/// Why a call got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The actor is not running, or died with the question in its mailbox.
    #[error("the actor is down")]
    Down,
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

/// One message's place in the mailbox depth.
pub(crate) struct Slot(Arc<Stats>);

impl Slot {
    pub(crate) fn take(stats: &Arc<Stats>) -> Self {
        stats.depth.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(stats))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.depth.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One life of an actor, as those see it who may send it messages: what it tells itself is not their matter.
trait Mailbox<M>: Send + Sync {
    fn put(&self, message: M, slot: Slot) -> Result<(), Undelivered<M>>;
}

struct Messages<M: Send + 'static, E: Send + 'static>(ractor::ActorRef<Envelope<M, E>>);

impl<M: Send + 'static, E: Send + 'static> Mailbox<M> for Messages<M, E> {
    fn put(&self, message: M, slot: Slot) -> Result<(), Undelivered<M>> {
        match self.0.cast(Envelope::Message(message, slot)) {
            Err(MessagingErr::SendErr(Envelope::Message(message, _))) => Err(Undelivered(message)),
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
    actor: RwLock<Option<Arc<dyn Mailbox<M>>>>,
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

    /// Puts a message into the mailbox.
    ///
    /// # Errors
    /// The actor is not running; the message comes back.
    pub fn cast(&self, message: M) -> Result<(), Undelivered<M>> {
        // What comes back may be dropped by the caller, and its drop may cast elsewhere: no lock is held meanwhile.
        let actor = self.inner.actor.read().clone();
        match actor {
            Some(actor) => actor.put(message, Slot::take(&self.inner.stats)),
            None => Err(Undelivered(message)),
        }
    }

    /// Asks, and waits for the answer at most `within`.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call<T>(&self, question: impl FnOnce(Reply<T>) -> M, within: Duration) -> Result<T, CallError> {
        let (reply, answer) = oneshot::channel();
        self.cast(question(reply)).map_err(|_| CallError::Down)?;
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

    pub(crate) fn connect<E: Send + 'static>(&self, actor: ractor::ActorRef<Envelope<M, E>>) {
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
