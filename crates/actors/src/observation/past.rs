//! The last turns and samples, persisted in the store, so that they survive a restart or a kill of the process.
//!
//! Ended turns and samples are stored in chunks, in one ring of keys each, which the next process continues. Each flush
//! rewrites the chunk in progress, so a kill loses only events since the last flush. A regular stop is recorded; a
//! process without that record was killed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::observation::timeline::TURNS;
use domain::ids::{self, Timestamp};
use domain::keys;
use ports::samples::{Break, BreakKind, Figures};
use ports::vitals::TurnTimes;
use ports::{Store, Write};

/// Turns of one chunk.
const TURNS_OF_A_CHUNK: usize = 10;
/// Chunks of turns; together they hold as many turns as a process keeps in memory.
const TURN_CHUNKS: u64 = (TURNS / TURNS_OF_A_CHUNK) as u64;
/// Samples of one chunk. A chunk is written after this many samples, or earlier when a turn ends.
const SAMPLES_OF_A_CHUNK: usize = 5;
/// Chunks of samples; together they hold ten minutes.
const SAMPLE_CHUNKS: u64 = 60;
/// The maximum number of breaks that are kept, newest first.
const BREAKS: usize = 16;
/// The TTL of all these records.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A stored sample: its time, and the counts of the whole process.
pub type KeptSample = (u64, Figures);

/// The past of one instance of the program.
pub struct Past {
    store: Arc<dyn Store>,
    /// The identifier that separates programs on one store.
    instance: String,
    book: Mutex<Book>,
}

/// The data to write, and the data of earlier processes.
#[derive(Default)]
struct Book {
    life: Life,
    /// The chunks in progress.
    turns: Vec<TurnTimes>,
    samples: Vec<KeptSample>,
    /// The turns read from earlier processes, newest first.
    earlier: Vec<TurnTimes>,
    /// True once the records of earlier processes are read. Nothing is written before that.
    known: bool,
    /// True if a turn ended since the last flush.
    ended: bool,
}

/// The life-cycle record of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Life {
    /// The time of the last write.
    seen: u64,
    /// True if the program stopped regularly.
    stopped: bool,
    /// The numbers of the chunks in progress.
    turns: u64,
    samples: u64,
    /// The ends of earlier processes.
    breaks: VecDeque<Break>,
}

impl Past {
    /// Creates an empty past; it reads and writes nothing yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, instance: String) -> Self {
        Self { store, instance, book: Mutex::default() }
    }

    /// Reads the records of earlier processes, once. Returns their samples, oldest first.
    pub async fn recall(&self, now: Timestamp) -> Vec<KeptSample> {
        if self.book.lock().known {
            return Vec::new();
        }
        let life: Option<Life> = self.read(&keys::past::past_life(&self.instance)).await;
        let (mut turns, mut samples) = (Vec::new(), Vec::new());
        if life.is_some() {
            for slot in 0..TURN_CHUNKS {
                let key = keys::past::past_turns(&self.instance, slot);
                turns.extend(self.read::<Vec<TurnTimes>>(&key).await.into_iter().flatten());
            }
            for slot in 0..SAMPLE_CHUNKS {
                let key = keys::past::past_samples(&self.instance, slot);
                samples.extend(self.read::<Vec<KeptSample>>(&key).await.into_iter().flatten());
            }
        }
        turns.sort_by_key(|turn: &TurnTimes| std::cmp::Reverse((turn.at, turn.number)));
        turns.truncate(TURNS);
        samples.sort_by_key(|(at, _)| *at);
        let book = &mut *self.book.lock();
        book.life = life.map(|life| life.goes_on(now)).unwrap_or_default();
        book.earlier = turns.into_iter().map(|turn| TurnTimes { earlier: true, ..turn }).collect();
        book.known = true;
        samples
    }

    async fn read<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        // A record in the format of another version is ignored and replaced.
        serde_json::from_str(&self.store.get(key).await?).ok()
    }

    /// Stores ended turns and a sample; writes them when a flush is due.
    pub fn keep(&self, ended: Vec<TurnTimes>, sample: KeptSample) {
        let book = &mut *self.book.lock();
        book.samples.push(sample);
        book.ended |= !ended.is_empty();
        book.turns.extend(ended);
        let due = book.ended || book.samples.len() >= SAMPLES_OF_A_CHUNK;
        if !book.known {
            // Until the records are read, the buffers are bounded like one chunk.
            let over = book.samples.len().saturating_sub(SAMPLES_OF_A_CHUNK);
            book.samples.drain(..over);
            let over = book.turns.len().saturating_sub(TURNS);
            book.turns.drain(..over);
        } else if due {
            drop(self.store.write(self.flush(book, sample.0)));
        }
    }

    fn flush(&self, book: &mut Book, at: u64) -> Vec<Write> {
        let mut writes = Vec::new();
        while book.ended {
            let many = book.turns.len().min(TURNS_OF_A_CHUNK);
            writes.extend(put(
                keys::past::past_turns(&self.instance, book.life.turns % TURN_CHUNKS),
                &book.turns[..many],
            ));
            if many < TURNS_OF_A_CHUNK {
                break;
            }
            book.turns.drain(..many);
            book.life.turns += 1;
            book.ended = !book.turns.is_empty();
        }
        book.ended = false;
        let slot = book.life.samples % SAMPLE_CHUNKS;
        writes.extend(put(keys::past::past_samples(&self.instance, slot), &book.samples));
        if book.samples.len() >= SAMPLES_OF_A_CHUNK {
            book.samples.clear();
            book.life.samples += 1;
        }
        (book.life.seen, book.life.stopped) = (at, false);
        writes.extend(put(keys::past::past_life(&self.instance), &book.life));
        writes
    }

    /// Records a regular stop of the program.
    pub fn stops(&self, ended: Vec<TurnTimes>, at: Timestamp) {
        let book = &mut *self.book.lock();
        if !book.known {
            return;
        }
        book.ended |= !ended.is_empty();
        book.turns.extend(ended);
        let mut writes = self.flush(book, at.0);
        book.life.stopped = true;
        writes.extend(put(keys::past::past_life(&self.instance), &book.life));
        drop(self.store.write(writes));
    }

    /// Returns the turns of earlier processes, newest first.
    pub fn turns(&self, now: Timestamp) -> Vec<TurnTimes> {
        let book = self.book.lock();
        let aged = |turn: &TurnTimes| TurnTimes { age_ms: ids::millis(now.since(turn.at)), ..turn.clone() };
        book.earlier.iter().map(aged).collect()
    }

    /// Returns the ends of earlier processes, oldest first.
    pub fn breaks(&self) -> Vec<Break> {
        self.book.lock().life.breaks.iter().copied().collect()
    }

    /// Deletes the ended turns of this member from memory and from the store, because the member asked to be forgotten.
    pub async fn forget(&self, member: &str) {
        let theirs = |turn: &TurnTimes| turn.member.as_deref() == Some(member);
        let clean = |book: &mut Book| {
            book.earlier.retain(|turn| !theirs(turn));
            let before = book.turns.len();
            book.turns.retain(|turn| !theirs(turn));
            before > book.turns.len()
        };
        {
            let book = &mut *self.book.lock();
            if clean(book) && book.known {
                book.ended = true;
                let seen = book.life.seen;
                drop(self.store.write(self.flush(book, seen)));
            }
        }
        for slot in 0..TURN_CHUNKS {
            let key = keys::past::past_turns(&self.instance, slot);
            let Some(mut turns) = self.read::<Vec<TurnTimes>>(&key).await else { continue };
            let before = turns.len();
            turns.retain(|turn| !theirs(turn));
            let book = self.book.lock();
            // The chunk in progress was written above, and may have grown since.
            let in_progress = slot == book.life.turns % TURN_CHUNKS && !book.turns.is_empty();
            if turns.len() < before && !in_progress {
                drop(self.store.write(put(key, &turns).into_iter().collect()));
            }
        }
        // The records of earlier processes may have been read meanwhile.
        clean(&mut self.book.lock());
    }
}

impl Life {
    /// The life of this process, which continues after the chunks of the previous one.
    fn goes_on(mut self, now: Timestamp) -> Self {
        let kind = if self.stopped { BreakKind::Stopped } else { BreakKind::Killed };
        self.breaks.push_back(Break { from: Timestamp(self.seen), to: now, kind });
        while self.breaks.len() > BREAKS {
            self.breaks.pop_front();
        }
        // Chunks in progress of the previous process stay unchanged.
        Self { seen: now.0, stopped: false, turns: self.turns + 1, samples: self.samples + 1, breaks: self.breaks }
    }
}

fn put<T: Serialize + ?Sized>(key: String, value: &T) -> Option<Write> {
    Some(Write::Put { key, value: serde_json::to_string(value).ok()?, ttl: Some(KEPT_FOR) })
}

#[cfg(test)]
mod tests;
