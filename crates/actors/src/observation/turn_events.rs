//! The events of turns, stored once for all readers: a bounded log for each place of a door that has readers.
//!
//! Actors publish; readers follow at their own pace and never block a publisher. A full log drops its oldest events,
//! and a reader behind them is notified. Consecutive unread drafts are merged: a place without readers holds one event
//! for a whole draft, and a slow reader gets fewer, larger pieces.

mod updates;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use domain::ids::{Door, Place, TurnId};
use domain::turn_event::{TurnEvent, TurnUpdate};
use ports::{Batch, Clock, TurnEventLog};

/// The maximum number of streams; the longest idle stream without a reader is evicted first. The doors bound readers.
const STREAMS_MAX: usize = 1_024;
/// The maximum number of events in a stream.
const EVENTS_MAX: usize = 1_000;
/// The maximum bytes of content in a stream.
const BYTES_MAX: usize = 256 * 1024;
/// The minimum number of events kept regardless of their size: an answer and the end of its turn.
const KEPT_MIN: usize = 2;
/// The maximum number of events in one read.
const READ_MAX: usize = 64;
/// The idle time after which a stream is dropped.
const QUIET_FOR: Duration = Duration::from_secs(3_600);
/// Event numbers of a stream for each millisecond of wall-clock time. A later process starts above all numbers of an
/// earlier one, unless the earlier one exceeded this average rate.
const NUMBERS_A_MS: u64 = 1_000;

/// The log to which actors publish the events of turns. Clones share the log; the default log keeps nothing.
#[derive(Clone, Default)]
pub struct TurnEvents(Option<Arc<Log>>);

struct Log {
    /// The doors where a stream begins with the first event, not with its first reader.
    doors: Vec<Door>,
    clock: Arc<dyn Clock>,
    streams: Mutex<HashMap<Place, Stream>>,
}

struct Stream {
    events: VecDeque<Arc<TurnEvent>>,
    /// The content of all events, in bytes.
    bytes: usize,
    /// The number before the oldest event in the log.
    dropped: u64,
    /// The highest number returned to any reader.
    read: u64,
    newest: watch::Sender<u64>,
    touched: Instant,
}

impl TurnEvents {
    /// A log that stores all events of the turns at these doors. At other doors, the stream of a place begins with its
    /// first reader.
    #[must_use]
    pub fn new(doors: Vec<Door>, clock: Arc<dyn Clock>) -> Self {
        Self(Some(Arc::new(Log { doors, clock, streams: Mutex::default() })))
    }

    /// True if a place has a stream.
    #[must_use]
    pub fn has(&self, place: &Place) -> bool {
        self.0.as_ref().is_some_and(|log| log.streams.lock().contains_key(place))
    }

    /// Appends to the stream of a place. Nearly free for places without readers: `update` is not called then.
    pub fn publish(&self, place: &Place, turn: &TurnId, update: impl FnOnce() -> TurnUpdate) {
        let Some(log) = self.0.as_ref() else { return };
        if !log.doors.contains(&place.door) && !self.has(place) {
            return;
        }
        let update = update();
        log.with(place, |stream| stream.append(turn, update));
    }
}

impl TurnEventLog for TurnEvents {
    fn open(&self, place: &Place) {
        if let Some(log) = &self.0 {
            log.with(place, |_| ());
        }
    }

    fn close(&self, place: &Place) {
        let stream = self.0.as_ref().and_then(|log| log.streams.lock().remove(place));
        drop(stream);
    }

    fn read(&self, place: &Place, after: u64) -> Option<Batch> {
        self.0.as_ref()?.streams.lock().get_mut(place).map(|stream| stream.read(after))
    }
}

impl Log {
    /// Calls `act` with the stream of a place, which is created if there is none.
    fn with(&self, place: &Place, act: impl FnOnce(&mut Stream)) {
        let mut streams = self.streams.lock();
        if !streams.contains_key(place) {
            streams.retain(|_, stream| stream.touched.elapsed() < QUIET_FOR);
            if streams.len() >= STREAMS_MAX {
                let unread = |(_, stream): &(&Place, &Stream)| stream.newest.receiver_count() == 0;
                let idle = streams.iter().filter(unread).min_by_key(|(_, stream)| stream.touched);
                let quietest = idle.map(|(place, _)| place.clone());
                quietest.map(|place| streams.remove(&place));
            }
        }
        let begin = || Stream::new(self.clock.now().0.saturating_mul(NUMBERS_A_MS));
        let stream = streams.entry(place.clone()).or_insert_with(begin);
        stream.touched = Instant::now();
        act(stream);
    }
}

impl Stream {
    fn new(before: u64) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            dropped: before,
            read: before,
            newest: watch::Sender::new(before),
            touched: Instant::now(),
        }
    }

    fn append(&mut self, turn: &TurnId, update: TurnUpdate) {
        self.bytes += update.size();
        let Some(update) = self.join(turn, update) else { return };
        let number = *self.newest.borrow() + 1;
        self.events.push_back(Arc::new(TurnEvent { number, turn: turn.clone(), update }));
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > KEPT_MIN) {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.update.size();
            self.dropped = oldest.number;
        }
        self.newest.send_replace(number);
    }

    /// Merges a draft into an unread draft of the same turn; returns an update that cannot be merged. A second
    /// acceptance of a turn without further progress is dropped.
    fn join(&mut self, turn: &TurnId, update: TurnUpdate) -> Option<TurnUpdate> {
        if update == TurnUpdate::Accepted {
            let again = self.events.back().is_some_and(|last| last.turn == *turn && last.update == update);
            return (!again).then_some(update);
        }
        let TurnUpdate::Draft { text: more, anew: false } = &update else { return Some(update) };
        let last = self.events.back_mut().filter(|last| last.number > self.read && last.turn == *turn);
        match last.and_then(Arc::get_mut).map(|last| &mut last.update) {
            Some(TurnUpdate::Draft { text, .. }) => {
                text.push_str(more);
                None
            }
            Some(_) | None => Some(update),
        }
    }

    fn read(&mut self, after: u64) -> Batch {
        let newest = *self.newest.borrow();
        // An unknown number comes from another process, as does a number from before this process.
        let missed = (after != 0 && (after < self.dropped || after > newest)).then_some(self.dropped);
        let from = after.max(self.dropped) - self.dropped;
        let from = if missed.is_some() { 0 } else { usize::try_from(from).unwrap_or(usize::MAX) };
        let events: VecDeque<_> = self.events.iter().skip(from).take(READ_MAX).cloned().collect();
        if let Some(last) = events.back() {
            self.read = self.read.max(last.number);
        }
        Batch { events, missed, newest: self.newest.subscribe() }
    }
}

#[cfg(test)]
mod tests;
