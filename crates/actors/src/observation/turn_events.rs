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

use domain::ids::{Door, Person, Place, TurnId};
use domain::turn_event::{TurnEvent, TurnUpdate};
use ports::{Batch, Clock, TurnEventLog};

/// The maximum number of streams. The longest idle stream without a reader is evicted first, and before all others one
/// whose turns have ended. The doors bound readers.
const STREAMS_MAX: usize = 1_024;
/// The maximum number of events in a stream.
const EVENTS_MAX: usize = 1_000;
/// The maximum bytes of content in a stream.
const BYTES_MAX: usize = 256 * 1024;
/// The minimum number of events kept regardless of the bytes of their stream: an answer and the end of its turn.
const KEPT_MIN: usize = 2;
/// The maximum bytes of all streams. Beyond it, the largest stream of the person with most bytes loses its oldest
/// events, so many large answers or many sessions of one client cost no other client an event.
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The bytes of an event besides its content.
const EVENT_BYTES: usize = 128;
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
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    all: HashMap<Place, Stream>,
    /// The bytes of all streams.
    bytes: usize,
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
    /// The person of its first turn. `None` if the stream began behind it: then the place counts for itself.
    holder: Option<Person>,
    /// The accepted turns that have not ended, oldest first; at most [`EVENTS_MAX`].
    open: Vec<TurnId>,
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
        self.0.as_ref().is_some_and(|log| log.streams.lock().all.contains_key(place))
    }

    /// Returns the messages of the open turns of a place, oldest first.
    #[must_use]
    pub fn open_turns(&self, place: &Place) -> Vec<String> {
        let Some(log) = self.0.as_ref() else { return Vec::new() };
        let streams = log.streams.lock();
        streams.all.get(place).into_iter().flat_map(|stream| &stream.open).map(|turn| turn.id.to_string()).collect()
    }

    /// Appends to the stream of a place. Nearly free for places without readers: `update` is not called then.
    pub fn publish(&self, place: &Place, turn: &TurnId, update: impl FnOnce() -> TurnUpdate) {
        self.publish_of(None, place, turn, update);
    }

    /// Appends like [`Self::publish`], for a person whose streams share the bound of bytes.
    fn publish_of(&self, holder: Option<&Person>, place: &Place, turn: &TurnId, update: impl FnOnce() -> TurnUpdate) {
        let Some(log) = self.0.as_ref() else { return };
        if !log.doors.contains(&place.door) && !self.has(place) {
            return;
        }
        let update = update();
        log.with(place, |stream| {
            if stream.holder.is_none() {
                stream.holder = holder.cloned();
            }
            stream.append(turn, update);
        });
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
        self.0.as_ref()?.streams.lock().all.get_mut(place).map(|stream| stream.read(after))
    }
}

impl Log {
    /// Calls `act` with the stream of a place, which is created if there is none.
    fn with(&self, place: &Place, act: impl FnOnce(&mut Stream)) {
        let mut streams = self.streams.lock();
        if !streams.all.contains_key(place) {
            streams.make_room();
        }
        let begin = || Stream::new(self.clock.now().0.saturating_mul(NUMBERS_A_MS));
        let stream = streams.all.entry(place.clone()).or_insert_with(begin);
        let before = stream.weight();
        stream.touched = Instant::now();
        act(stream);
        let after = stream.weight();
        streams.bytes = streams.bytes + after - before;
        streams.fit(ALL_BYTES_MAX);
    }
}

/// The holder of streams: their bytes count together.
#[derive(PartialEq, Eq, Hash)]
enum Holder<'a> {
    Person(&'a Person),
    Place(&'a Place),
}

impl Streams {
    fn remove(&mut self, place: &Place) -> Option<Stream> {
        let stream = self.all.remove(place)?;
        self.bytes -= stream.weight();
        Some(stream)
    }

    /// Removes idle streams, and then one more if there are too many.
    fn make_room(&mut self) {
        self.all.retain(|_, stream| stream.touched.elapsed() < QUIET_FOR);
        self.bytes = self.all.values().map(Stream::weight).sum();
        if self.all.len() >= STREAMS_MAX {
            let unread = |(_, stream): &(&Place, &Stream)| stream.newest.receiver_count() == 0;
            let idle = self.all.iter().filter(unread).min_by_key(|(_, stream)| (!stream.is_over(), stream.touched));
            let quietest = idle.map(|(place, _)| place.clone());
            quietest.map(|place| self.remove(&place));
        }
    }

    /// Drops the oldest events of the largest streams of the largest holders until all streams have at most this many
    /// bytes. Each search for the largest one frees a whole stream, or is the last one.
    fn fit(&mut self, most: usize) {
        while self.bytes > most {
            let Some(largest) = self.largest().and_then(|place| self.all.get_mut(&place)) else { break };
            let before = largest.weight();
            while self.bytes - (before - largest.weight()) > most && largest.drop_oldest() {}
            self.bytes -= before - largest.weight();
        }
    }

    /// Returns the place of the largest stream of the holder with most bytes; `None` if no stream has an event.
    fn largest(&self) -> Option<Place> {
        let mut held: HashMap<Holder<'_>, (usize, usize, &Place)> = HashMap::new();
        for (place, stream) in self.all.iter().filter(|(_, stream)| !stream.events.is_empty()) {
            let holder = stream.holder.as_ref().map_or(Holder::Place(place), Holder::Person);
            let (all, most, largest) = held.entry(holder).or_insert((0, 0, place));
            *all += stream.weight();
            if stream.weight() > *most {
                (*most, *largest) = (stream.weight(), place);
            }
        }
        held.into_values().max_by_key(|(all, ..)| *all).map(|(.., largest)| largest.clone())
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
            holder: None,
            open: Vec::new(),
        }
    }

    fn append(&mut self, turn: &TurnId, update: TurnUpdate) {
        match &update {
            TurnUpdate::Accepted if !self.open.contains(turn) => {
                if self.open.len() >= EVENTS_MAX {
                    self.open.remove(0);
                }
                self.open.push(turn.clone());
            }
            TurnUpdate::Done { .. } => self.open.retain(|open| open != turn),
            _ => {}
        }
        self.bytes += update.size();
        let Some(update) = self.join(turn, update) else { return };
        let number = *self.newest.borrow() + 1;
        self.events.push_back(Arc::new(TurnEvent { number, turn: turn.clone(), update }));
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > KEPT_MIN) {
            self.drop_oldest();
        }
        self.newest.send_replace(number);
    }

    /// Drops the oldest event. Returns false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.events.pop_front() else { return false };
        self.bytes -= oldest.update.size();
        self.dropped = oldest.number;
        true
    }

    /// Returns its bytes in memory.
    fn weight(&self) -> usize {
        self.bytes + self.events.len() * EVENT_BYTES
    }

    /// True if no turn is in progress.
    fn is_over(&self) -> bool {
        self.open.is_empty() && self.events.back().is_none_or(|last| matches!(last.update, TurnUpdate::Done { .. }))
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
