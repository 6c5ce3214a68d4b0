//! Event streams: the events of the turns in one place, readable from any number.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use domain::ids::Place;
use domain::turn_event::TurnEvent;

/// The events of turns, for places whose door has readers. Bounded: the oldest events are dropped first.
pub trait TurnEventLog: Send + Sync {
    /// Opens the stream of a place, so that it can be read before its first event. No effect if it exists, or if the
    /// door has no readers.
    fn open(&self, place: &Place);

    /// Closes the stream of a place without readers. A later event opens a new one.
    fn close(&self, place: &Place);

    /// Returns the next events after this number, at most a few dozen; 0 starts at the oldest one available. `None`
    /// if the place has no stream.
    fn read(&self, place: &Place, after: u64) -> Option<Batch>;
}

/// Consecutive events of one place.
pub struct Batch {
    /// The events.
    pub events: VecDeque<Arc<TurnEvent>>,
    /// The number of the last event dropped before a reader at `after` could read it. `None` if none was missed.
    pub missed: Option<u64>,
    /// The number of the newest event. Closed when the stream ends.
    pub newest: watch::Receiver<u64>,
}

/// A reader of one place's events. It buffers a few dozen events at most, and does not slow down writers.
pub struct TurnEventReader {
    log: Arc<dyn TurnEventLog>,
    place: Place,
    after: u64,
    batch: VecDeque<Arc<TurnEvent>>,
    /// Marks the stream as read for the life of the reader.
    _present: watch::Receiver<u64>,
    /// True if it had reached the newest event.
    live: bool,
    cut: bool,
}

/// An item returned by a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The next event.
    Event(Arc<TurnEvent>),
    /// Events up to this number were dropped unread.
    Missed(u64),
}

impl TurnEventReader {
    /// Creates a reader that begins after this number. `None` if the place has no stream.
    #[must_use]
    pub fn new(log: Arc<dyn TurnEventLog>, place: Place, after: u64) -> Option<Self> {
        let present = log.read(&place, after)?.newest;
        Some(Self { log, place, after, batch: VecDeque::new(), _present: present, live: false, cut: false })
    }

    /// Waits for the next event, without a timeout. `None` if the stream ended, or after a slow reader missed events:
    /// it is cut off, and may start again after them. Cancel safe.
    pub async fn next(&mut self) -> Option<Reading> {
        loop {
            if let Some(event) = self.batch.pop_front() {
                self.after = event.number;
                return Some(Reading::Event(event));
            }
            if self.cut {
                return None;
            }
            let Batch { events, missed, mut newest } = self.log.read(&self.place, self.after)?;
            if let Some(missed) = missed {
                self.after = missed;
                self.cut = self.live;
                return Some(Reading::Missed(missed));
            }
            if !events.is_empty() {
                self.batch = events;
                continue;
            }
            self.live = true;
            // The sender is dropped with the stream.
            newest.wait_for(|newest| *newest > self.after).await.ok()?;
        }
    }
}
