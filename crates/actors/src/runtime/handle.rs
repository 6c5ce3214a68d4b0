//! Handles: actor addresses that are created before the actor and stay valid across its restarts.
//!
//! A handle refuses a message at once if its actor is down or if the mailbox is at its capacity ([`Mailbox`]). A handle
//! never blocks and never buffers. `cast` returns a refused message to a sender that must decide; `tell` is for
//! messages whose loss is repaired elsewhere, as the comment at each call states. Both count refused messages by actor
//! and reason.
//!
//! A handle accepts the messages that other actors may send. An actor's own events (timers, task results) go through
//! its context and are never refused. The counts are exact: a guard counts each message, travels with it, and is
//! dropped with it, also when a crash discards a whole mailbox.

mod stats;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use ractor::MessagingErr;
use tokio::sync::oneshot;

pub use self::stats::{Failure, HUNG, Handled, LifeState, Stats};
pub(crate) use self::stats::{Hung, Next};
use crate::tree::{Mailbox, Scope, TreeRow, WhenFull};
use ports::Fault;

/// The sender of a reply. Dropping it fails the call.
pub type Reply<T> = oneshot::Sender<T>;

/// The reason why a mailbox refused a message. The message is returned.
pub enum Refused<M> {
    /// The actor is not running.
    Down(M),
    /// The mailbox is at its capacity.
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

/// The reason why a call got no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The actor is not running, or ended with the request in its mailbox.
    #[error("the actor is down")]
    Down,
    /// The actor's mailbox is full.
    #[error("the actor has too much to do")]
    Full,
    /// The reply did not arrive before the timeout.
    #[error("the actor did not answer in time")]
    Timeout,
}

/// An entry of an actor's mailbox.
pub(crate) enum Envelope<M, E> {
    /// A message of another actor, with its slot in the depth count.
    Message(M, Slot),
    /// An event of the actor's own timers and tasks, with its slot in the depth count.
    Event(E, Slot),
    /// An injected fault for this actor, with its slot in the depth count.
    Fault(Fault, Slot),
    /// A timer of the supervisor: restart the child of this path.
    Revive(Arc<str>),
    /// A timer of the supervisor: check for children with hanging handlers.
    Look,
}

/// A slot of a mailbox, held until its content is handled or dropped.
pub(crate) struct Slot {
    stats: Arc<Stats>,
    /// True for a message of another actor, which counts against the capacity.
    bounded: bool,
}

impl Slot {
    /// Returns a slot for an event of the actor itself, or for an injected fault.
    pub(crate) fn take(stats: &Arc<Stats>) -> Self {
        Self::new(stats, false)
    }

    /// Returns a slot for a message of another actor; `None` if the mailbox is at its capacity.
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

/// One life of an actor, as its senders see it. The actor's own events take another path.
trait Life<M>: Send + Sync {
    /// Puts a message into the mailbox; returns it if this life is over.
    fn put(&self, message: M, slot: Slot) -> Result<(), M>;
}

struct Messages<M: Send + 'static, E: Send + 'static>(ractor::ActorRef<Envelope<M, E>>);

impl<M: Send + 'static, E: Send + 'static> Life<M> for Messages<M, E> {
    fn put(&self, message: M, slot: Slot) -> Result<(), M> {
        match self.0.cast(Envelope::Message(message, slot)) {
            Err(MessagingErr::SendErr(Envelope::Message(message, _))) => Err(message),
            // The mailbox refuses for no other reason, and no other kind of entry was put.
            Err(_) | Ok(()) => Ok(()),
        }
    }
}

/// The address of one actor, valid across its restarts. Cheap to clone. It accepts the actor's messages only.
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
    /// Returns a handle for one actor of a row, below the path of its supervisor. It is down until the supervisor
    /// starts the actor.
    #[must_use]
    pub fn new(row: &TreeRow, above: &str, scope: Scope) -> Self {
        let inner = Inner { actor: RwLock::new(None), stats: Arc::new(Stats::new(row, above, scope)) };
        Self { inner: Arc::new(inner) }
    }

    /// Puts a message into the mailbox, for a sender that must handle a refusal.
    ///
    /// If the mailbox is full and its row says [`WhenFull::Drop`], the message is dropped and the result is `Ok`: a
    /// queued message already requests the same.
    ///
    /// # Errors
    /// The actor is not running, or its mailbox is full. The message is returned and counted as refused.
    pub fn cast(&self, message: M) -> Result<(), Refused<M>> {
        let stats = &self.inner.stats;
        // No lock is held here: the caller may drop a returned message, and that drop may cast to another actor.
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

    /// Puts a message into the mailbox. A refused message is dropped and counted; the comment at the call states what
    /// repairs the loss.
    pub fn tell(&self, message: M) {
        drop(self.cast(message));
    }

    /// Sends a request and waits for the reply, at most for `within`.
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

    /// Returns the statistics of this actor.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.inner.stats
    }

    /// Returns the capacity of its mailbox.
    #[must_use]
    pub fn mailbox(&self) -> Mailbox {
        self.inner.stats.mailbox
    }

    pub(crate) fn connect<E: Send + 'static>(&self, actor: ractor::ActorRef<Envelope<M, E>>) {
        // A new life requests all the state that it needs, so an earlier overflow no longer matters.
        self.inner.stats.forget_overflow();
        *self.inner.actor.write() = Some(Arc::new(Messages(actor)));
        self.inner.stats.enter(LifeState::Running);
    }
}

/// The part of a child's handle that a supervisor needs, independent of the message type.
pub(crate) trait Address: Send + Sync {
    /// Marks the actor as down.
    fn disconnect(&self);
    /// Returns the statistics of the actor.
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
