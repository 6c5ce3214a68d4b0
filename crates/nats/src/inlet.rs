//! The messages of subscriptions that wait to be read, bounded in number and in bytes. The library bounds their number
//! only, and one message may have many megabytes.

use std::sync::Arc;

use async_nats::{Message, Subject, Subscriber};
use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::Seldom;
use telemetry::events::NATS_ODD;

/// The bounds of an inlet.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The most waiting messages; further ones are dropped.
    pub messages: usize,
    /// The most bytes of all messages that wait or are in use; a message without room arrives as [`Arrival::Crowded`].
    pub bytes: u32,
    /// The longest payload in bytes; a longer message arrives as [`Arrival::TooLong`].
    pub longest: usize,
}

/// A message, or what is left of one that was dropped at its arrival.
#[derive(Debug)]
pub enum Arrival {
    /// A message. It counts as long as the second value exists.
    Message(Message, Held),
    /// The payload was too long.
    TooLong(Dropped),
    /// The waiting messages left no room for it.
    Crowded(Dropped),
}

/// The bytes of a message that count against the bounds.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "dropping it returns the bytes")] OwnedSemaphorePermit);

/// A message that was dropped at its arrival.
#[derive(Debug)]
pub struct Dropped {
    /// Its subject.
    pub subject: Subject,
    /// The address of its reply.
    pub reply: Option<Subject>,
}

/// The waiting messages. Dropping it ends the subscriptions.
pub struct Inlet {
    waiting: mpsc::Receiver<Arrival>,
    _reading: AbortOnDropHandle<()>,
}

impl Inlet {
    /// Reads these subscriptions from now on. Messages for which `is_wanted` is false are dropped.
    #[must_use]
    pub fn new(subscribers: Vec<Subscriber>, bounds: Bounds, is_wanted: fn(&str) -> bool) -> Self {
        let (sender, waiting) = mpsc::channel(bounds.messages);
        let gate = Gate { room: Arc::new(Semaphore::new(bounds.bytes as usize)), bounds, is_wanted };
        let mut messages: SelectAll<Subscriber> = subscribers.into_iter().collect();
        let reading = async move {
            let overrun = Seldom::default();
            while let Some(message) = messages.next().await {
                let Some(arrival) = gate.admit(message) else { continue };
                if sender.try_send(arrival).is_err()
                    && let Some(times) = overrun.count(Instant::now())
                {
                    tracing::warn!(
                        event = NATS_ODD,
                        times,
                        "messages arrive faster than they are read, and some are dropped"
                    );
                }
            }
        };
        // The library's buffer has no bound in bytes, so it is emptied whenever it holds a message.
        let reading = AbortOnDropHandle::new(tokio::spawn(tokio::task::unconstrained(reading)));
        Self { waiting, _reading: reading }
    }

    /// Returns the next message; none if the subscriptions ended.
    pub async fn next(&mut self) -> Option<Arrival> {
        self.waiting.recv().await
    }
}

/// Decides about each message at its arrival.
struct Gate {
    room: Arc<Semaphore>,
    bounds: Bounds,
    is_wanted: fn(&str) -> bool,
}

impl Gate {
    fn admit(&self, message: Message) -> Option<Arrival> {
        if !(self.is_wanted)(&message.subject) {
            return None;
        }
        if message.payload.len() > self.bounds.longest {
            return Some(Arrival::TooLong(Dropped::of(message)));
        }
        // The length includes the headers.
        let bytes = u32::try_from(message.length.max(message.payload.len())).unwrap_or(u32::MAX);
        Some(match Arc::clone(&self.room).try_acquire_many_owned(bytes) {
            Ok(room) => Arrival::Message(message, Held(room)),
            Err(_) => Arrival::Crowded(Dropped::of(message)),
        })
    }
}

impl Dropped {
    fn of(message: Message) -> Self {
        // The subjects may be parts of the message's buffer.
        let owned = |subject: Subject| Subject::from(subject.as_str().to_owned());
        Self { subject: owned(message.subject), reply: message.reply.map(owned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &'static str, bytes: usize) -> Message {
        let payload = vec![b'x'; bytes].into();
        let (subject, reply) = (Subject::from_static(subject), Some(Subject::from_static("inbox")));
        Message { subject, reply, payload, headers: None, status: None, description: None, length: bytes }
    }

    fn gate() -> Gate {
        let bounds = Bounds { messages: 8, bytes: 1_000, longest: 600 };
        Gate { room: Arc::new(Semaphore::new(1_000)), bounds, is_wanted: |subject| subject != "other" }
    }

    #[test]
    fn waiting_messages_are_bounded_in_bytes() {
        let gate = gate();
        let first = gate.admit(message("a", 600));
        assert!(matches!(first, Some(Arrival::Message(..))));
        let crowded = gate.admit(message("a", 600));
        assert!(matches!(crowded, Some(Arrival::Crowded(Dropped { reply: Some(_), .. }))), "{crowded:?}");
        let small = gate.admit(message("a", 400));
        assert!(matches!(small, Some(Arrival::Message(..))), "a smaller one has room");
        drop(first);
        assert!(matches!(gate.admit(message("a", 600)), Some(Arrival::Message(..))), "the bytes of the first are free");
    }

    #[test]
    fn a_message_that_is_too_long_or_not_wanted_holds_no_room() {
        let gate = gate();
        assert!(matches!(gate.admit(message("a", 601)), Some(Arrival::TooLong(_))));
        assert!(gate.admit(message("other", 10)).is_none());
        assert_eq!(gate.room.available_permits(), 1_000);
    }
}
