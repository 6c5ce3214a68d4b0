//! Reading along: the events of the turns in one place, from any number on.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use domain::ids::Place;
use domain::turn_event::TurnEvent;

/// The events of turns, for the places whose door has readers. Bounded: the oldest events are dropped first.
pub trait TurnEventLog: Send + Sync {
    /// Begins the stream of a place, so that it can be read before something happens there. Does nothing where the place has
    /// one, or where its door has no readers.
    fn open(&self, place: &Place);

    /// Ends the stream of a place: nobody reads it any more. What happens there later begins another one.
    fn close(&self, place: &Place);

    /// The next events after this number, at most a few dozen; 0 reads from the oldest that is kept. None where the place
    /// has no stream.
    fn read(&self, place: &Place, after: u64) -> Option<Batch>;
}

/// Some events of one place, in order.
pub struct Batch {
    /// The events.
    pub events: VecDeque<Arc<TurnEvent>>,
    /// The number of the last event that was dropped before a reader at `after` could have it; none when it missed nothing.
    pub missed: Option<u64>,
    /// The number of the newest event. It is closed when the stream ends.
    pub newest: watch::Receiver<u64>,
}

/// A reader of one place's events. It holds a few dozen events at most, and costs those who write nothing.
pub struct TurnEventReader {
    log: Arc<dyn TurnEventLog>,
    place: Place,
    after: u64,
    batch: VecDeque<Arc<TurnEvent>>,
    /// It has read up to the newest event before.
    live: bool,
    cut: bool,
}

/// What a reader is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The next event.
    Event(Arc<TurnEvent>),
    /// Events up to this number were dropped before they could be read.
    Missed(u64),
}

impl TurnEventReader {
    /// Reads what follows on this number. None where the place has no stream.
    #[must_use]
    pub fn new(log: Arc<dyn TurnEventLog>, place: Place, after: u64) -> Option<Self> {
        log.read(&place, after)?;
        Some(Self { log, place, after, batch: VecDeque::new(), live: false, cut: false })
    }

    /// The next event, however long it takes. None when the stream ended, or when this reader was so slow that it missed
    /// something: it is cut then, and may begin again behind what it missed. Cancel safe.
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
            // The sender goes with the stream.
            newest.wait_for(|newest| *newest > self.after).await.ok()?;
        }
    }
}
