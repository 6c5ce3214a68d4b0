//! The last turns and samples in the store, so that they outlive the process that saw them, also one that was killed.
//!
//! Turns that ended and samples are kept in chunks: a ring of keys for each, which the next life goes on with. The chunk that is being
//! filled is written again with each flush, so a kill loses what happened since the last one. A process that stops as it should says so;
//! one that did not was killed.

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
/// Chunks of turns; together they hold as many as a process remembers.
const TURN_CHUNKS: u64 = (TURNS / TURNS_OF_A_CHUNK) as u64;
/// Samples of one chunk: it is written this often, or with the turns that ended.
const SAMPLES_OF_A_CHUNK: usize = 5;
/// Chunks of samples; together they hold ten minutes.
const SAMPLE_CHUNKS: u64 = 60;
/// Breaks that are remembered, the newest.
const BREAKS: usize = 16;
/// How long all of it lives after it was written.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A sample as it is kept: when, and the counts of the whole.
pub type KeptSample = (u64, Figures);

/// The past of one program at one place.
pub struct Past {
    store: Arc<dyn Store>,
    /// Tells programs on one store apart.
    instance: String,
    book: Mutex<Book>,
}

/// What is written, and what an earlier life wrote.
#[derive(Default)]
struct Book {
    life: Life,
    /// The chunks that are being filled.
    turns: Vec<TurnTimes>,
    samples: Vec<KeptSample>,
    /// What was read of earlier lives, the newest turn first.
    earlier: Vec<TurnTimes>,
    /// What earlier lives left was read. Nothing is written until then.
    known: bool,
    /// Turns of this life that ended since the last flush.
    ended: bool,
}

/// The record of the lives of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Life {
    /// When it was written last.
    seen: u64,
    /// The program stopped as it should.
    stopped: bool,
    /// The numbers of the chunks that are being filled.
    turns: u64,
    samples: u64,
    /// The ends of earlier lives.
    breaks: VecDeque<Break>,
}

impl Past {
    /// Nothing is read and nothing is written yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, instance: String) -> Self {
        Self { store, instance, book: Mutex::default() }
    }

    /// Reads what earlier lives left, once; gives their samples, the oldest first.
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
        // What another version wrote in another form is no loss: it is replaced.
        serde_json::from_str(&self.store.get(key).await?).ok()
    }

    /// Keeps turns that ended and a sample; writes them when that is due.
    pub fn keep(&self, ended: Vec<TurnTimes>, sample: KeptSample) {
        let book = &mut *self.book.lock();
        book.samples.push(sample);
        book.ended |= !ended.is_empty();
        book.turns.extend(ended);
        let due = book.ended || book.samples.len() >= SAMPLES_OF_A_CHUNK;
        if !book.known {
            // What comes before the reading is over is bounded as a chunk is.
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

    /// The program stops as it should.
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

    /// The turns of earlier lives, the newest first.
    pub fn turns(&self, now: Timestamp) -> Vec<TurnTimes> {
        let book = self.book.lock();
        let aged = |turn: &TurnTimes| TurnTimes { age_ms: ids::millis(now.since(turn.at)), ..turn.clone() };
        book.earlier.iter().map(aged).collect()
    }

    /// The ends of earlier lives, the oldest first.
    pub fn breaks(&self) -> Vec<Break> {
        self.book.lock().life.breaks.iter().copied().collect()
    }

    /// A member wished to be forgotten: no turn of earlier lives is told any more, and none that was written is kept.
    pub fn forget(&self) {
        let book = &mut *self.book.lock();
        book.earlier.clear();
        book.turns.clear();
        let slots = (0..TURN_CHUNKS).map(|slot| Write::Delete { key: keys::past::past_turns(&self.instance, slot) });
        drop(self.store.write(slots.collect()));
    }
}

impl Life {
    /// The life of this process, which goes on behind chunks of the one before.
    fn goes_on(mut self, now: Timestamp) -> Self {
        let kind = if self.stopped { BreakKind::Stopped } else { BreakKind::Killed };
        self.breaks.push_back(Break { from: Timestamp(self.seen), to: now, kind });
        while self.breaks.len() > BREAKS {
            self.breaks.pop_front();
        }
        // Chunks that were being filled stay as they are.
        Self { seen: now.0, stopped: false, turns: self.turns + 1, samples: self.samples + 1, breaks: self.breaks }
    }
}

fn put<T: Serialize + ?Sized>(key: String, value: &T) -> Option<Write> {
    Some(Write::Put { key, value: serde_json::to_string(value).ok()?, ttl: Some(KEPT_FOR) })
}

#[cfg(test)]
mod tests;
