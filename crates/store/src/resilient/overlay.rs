//! Writes that are not durable yet: the latest value of each key, bounded in number and bytes. Plain data without
//! waiting.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::counts::Counts;
use super::terms::Grouped;
use crate::counted;
use domain::counter::Counter;
use domain::history::History;
use domain::ids::Timestamp;
use domain::keys;
use domain::ownership::Range;
use domain::shared_map::SharedMap;
use ports::Write;

/// The size of an entry besides its key and its value, in bytes.
const ENTRY_OVERHEAD: usize = 128;

/// The overlay's knowledge of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// None: the backend decides.
    Unknown,
    Gone,
    Live(&'a str),
    /// A part that is to be joined with the stored history.
    Part(&'a str),
}

/// All pending writes at one moment.
pub struct Snapshot {
    /// The increments, then one write for each other key, with the remaining TTL.
    pub writes: Grouped,
    /// The number of the batch of increments.
    pub counts: u64,
    /// The number up to which all writes are included or were dropped.
    pub through: u64,
}

/// The latest value of each key that is not durable yet, and the increments of counters.
pub struct Overlay {
    /// Increments of keys whose value is unknown here.
    pub counts: Counts,
    entries: BTreeMap<Arc<str>, Entry>,
    /// The same entries in the order of eviction.
    order: BTreeMap<(Rank, u64), Arc<str>>,
    /// The keys of deletions. Each holder of such keys has a share.
    deletions: SharedMap<Arc<str>, ()>,
    bytes: usize,
    last: u64,
    max_entries: usize,
    max_bytes: usize,
}

struct Entry {
    number: u64,
    rank: Rank,
    value: Option<String>,
    expires: Option<Timestamp>,
    /// True if dropping the entry would restore a deleted value.
    hides: bool,
    /// The range whose owner wrote it.
    owner: Option<Range>,
    /// True if it replaced a deletion without an owner, which applies if the owner's write is refused.
    deletes: bool,
    /// True if it is to be joined with the stored history.
    joins: bool,
}

/// The order of eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Expired,
    Expendable,
    Essential,
}

impl Overlay {
    /// Creates an empty overlay with these bounds.
    pub fn new(max_entries: usize, max_bytes: usize) -> Self {
        let counts = Counts::new(max_entries, max_bytes);
        let (entries, order, deletions) = (BTreeMap::new(), BTreeMap::new(), SharedMap::new(max_entries));
        Self { counts, entries, order, deletions, bytes: 0, last: 0, max_entries, max_bytes }
    }

    /// Adds writes in order, of the owner of a range or without one. Returns the number of live entries that were
    /// evicted. A value larger than the whole bound is dropped, and the key keeps its previous value.
    pub fn take(&mut self, writes: Vec<Write>, owner: Option<&Range>, now: Timestamp) -> usize {
        let mut dropped = 0;
        for write in writes {
            match write {
                Write::Put { key, value, .. } | Write::Join { key, value, .. }
                    if weight(&key, Some(&value)) > self.max_bytes =>
                {
                    dropped += 1;
                }
                Write::Put { key, value, ttl } => {
                    let expires = ttl.map(|ttl| after(now, ttl));
                    self.insert(key.into(), Some(value), expires, owner);
                }
                Write::Join { key, value, ttl } => self.join(key, owner, (value, ttl), now),
                Write::Delete { key } => {
                    let key: Arc<str> = key.into();
                    self.insert(Arc::clone(&key), None, None, owner);
                    dropped += self.share(key);
                }
                Write::Add { key, by, ttl } => dropped += usize::from(!self.add(key, owner, (by, ttl), now)),
            }
            dropped += self.make_room();
        }
        dropped
    }

    /// Returns the knowledge of a key.
    pub fn get(&self, key: &str, now: Timestamp) -> Seen<'_> {
        match self.entries.get(key) {
            None => Seen::Unknown,
            Some(entry) => entry.seen(now),
        }
    }

    /// Returns the first keys with this prefix and their values, up to and including the `limit`th live one.
    pub fn scan(&self, prefix: &str, limit: usize, now: Timestamp) -> Vec<(String, Option<String>)> {
        let mut live = 0;
        let mut found = Vec::new();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        for (key, entry) in self.entries.range::<str, _>(from) {
            if live == limit || !key.starts_with(prefix) {
                break;
            }
            let value = match entry.seen(now) {
                Seen::Live(value) | Seen::Part(value) => Some(value.to_owned()),
                Seen::Gone | Seen::Unknown => None,
            };
            live += usize::from(value.is_some());
            found.push((key.to_string(), value));
        }
        found
    }

    /// Returns all pending writes; of the increments, only the batch to be sent now.
    pub fn snapshot(&mut self, now: Timestamp) -> Snapshot {
        let (mut writes, counts) = self.counts.hand_over(now);
        for (key, entry) in &self.entries {
            // A part whose TTL ended adds nothing, and deletes nothing either.
            if !entry.joins || entry.seen(now) != Seen::Gone {
                writes.push(entry.owner.as_ref(), entry.to_write(key, now));
            }
        }
        Snapshot { writes, counts, through: self.last }
    }

    /// Removes durable entries: those up to this number, and the increments of this batch.
    pub fn settle(&mut self, through: u64, counts: u64) {
        self.counts.taken(counts);
        for rank in [Rank::Expired, Rank::Expendable, Rank::Essential] {
            let done: Vec<_> = self.order.range((rank, 0)..=(rank, through)).map(|(at, _)| *at).collect();
            for at in done {
                self.remove_at(at);
            }
        }
    }

    /// Drops pending writes of the owner of this range, because another process owns it now. Deletions that these
    /// writes replaced stay pending.
    pub fn drop_owned(&mut self, range: &Range) {
        self.counts.drop_owned(range);
        let theirs = self.entries.iter().filter(|(_, entry)| entry.owner.as_ref() == Some(range));
        let theirs: Vec<_> =
            theirs.map(|(key, entry)| (Arc::clone(key), (entry.rank, entry.number), entry.deletes)).collect();
        for (key, at, deletes) in theirs {
            self.remove_at(at);
            if deletes {
                self.insert(Arc::clone(&key), None, None, None);
                self.share(key);
            }
        }
    }

    /// Releases the memory of expired values. Their remaining entries only hide older values in the backend.
    pub fn expire(&mut self, now: Timestamp) {
        for (key, entry) in &mut self.entries {
            if entry.value.is_none() || entry.seen(now) != Seen::Gone {
                continue;
            }
            self.bytes -= entry.value.take().map_or(0, |value| value.len());
            if !entry.hides {
                self.order.remove(&(entry.rank, entry.number));
                entry.rank = Rank::Expired;
                self.order.insert((entry.rank, entry.number), Arc::clone(key));
            }
        }
    }

    /// Returns the number of the last write.
    pub const fn last(&self) -> u64 {
        self.last
    }

    pub fn len(&self) -> usize {
        self.entries.len() + self.counts.len()
    }

    #[cfg(test)]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an increment to a known value, or else to the pending increments; returns false if a bound is reached.
    fn add(
        &mut self,
        key: String,
        owner: Option<&Range>,
        (by, ttl): (Counter, Option<Duration>),
        now: Timestamp,
    ) -> bool {
        let Some(entry) = self.entries.get(key.as_str()) else {
            self.last += 1;
            return self.counts.add(&key, owner, (by, ttl), now);
        };
        // The sum has the same owner as the value.
        let owner = entry.owner.clone();
        let (before, life) = match entry.seen(now) {
            Seen::Live(text) | Seen::Part(text) => (Some(text), entry.expires),
            Seen::Gone | Seen::Unknown => (None, None),
        };
        let sum = counted(before, by).to_string();
        let expires = ttl.map(|ttl| after(now, ttl)).or(life);
        self.insert(key.into(), Some(sum), expires, owner.as_ref());
        true
    }

    /// Adds a part of a history. It replaces an earlier part, which it contains; a history that is known here is
    /// joined at once.
    fn join(&mut self, key: String, owner: Option<&Range>, (value, ttl): (String, Option<Duration>), now: Timestamp) {
        let (value, joins) = match self.get(&key, now) {
            Seen::Unknown | Seen::Part(_) => (value, true),
            Seen::Gone => (value, self.entries.get(key.as_str()).is_some_and(|entry| entry.joins)),
            Seen::Live(known) => (History::joined(known, &value).unwrap_or(value), false),
        };
        let key: Arc<str> = key.into();
        self.insert(Arc::clone(&key), Some(value), ttl.map(|ttl| after(now, ttl)), owner);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.joins = joins;
        }
    }

    fn insert(&mut self, key: Arc<str>, value: Option<String>, expires: Option<Timestamp>, owner: Option<&Range>) {
        self.counts.replace(&key);
        let before = self.entries.get(&key);
        let hides = value.is_none() || before.is_some_and(|entry| entry.hides);
        let deleted = |entry: &Entry| entry.deletes || entry.owner.is_none() && entry.hides;
        let deletes = owner.is_some() && before.is_some_and(deleted);
        if let Some(at) = before.map(|entry| (entry.rank, entry.number)) {
            self.remove_at(at);
        }
        let essential = keys::essential(&key) || value.is_none();
        let rank = if essential { Rank::Essential } else { Rank::Expendable };
        self.last += 1;
        self.bytes += weight(&key, value.as_deref());
        self.order.insert((rank, self.last), Arc::clone(&key));
        self.entries.insert(
            key,
            Entry { number: self.last, rank, value, expires, hides, owner: owner.cloned(), deletes, joins: false },
        );
    }

    /// Counts a deletion for its holder. Beyond its share, a holder loses its oldest deletion: it never evicts writes of
    /// others. Returns the number of evicted entries.
    fn share(&mut self, key: Arc<str>) -> usize {
        let holder = keys::holder(&key).to_owned();
        let Ok(Some(oldest)) = self.deletions.insert(&holder, key, ()) else { return 0 };
        let Some(at) = self.entries.get(&oldest).map(|entry| (entry.rank, entry.number)) else { return 0 };
        self.remove_at(at);
        1
    }

    fn make_room(&mut self) -> usize {
        let mut dropped = 0;
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            let Some((&at, _)) = self.order.first_key_value() else { break };
            if !self.reduce_to_deletion(at) {
                self.remove_at(at);
            }
            dropped += usize::from(at.0 != Rank::Expired);
        }
        dropped
    }

    /// Evicts the text of an expendable entry that hides an older value; its deletion stays. False for other entries.
    fn reduce_to_deletion(&mut self, at: (Rank, u64)) -> bool {
        let Some(key) = self.order.get(&at).cloned() else { return false };
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.hides && at.0 == Rank::Expendable) else {
            return false;
        };
        self.bytes -= entry.value.take().map_or(0, |text| text.len());
        entry.rank = Rank::Essential;
        self.order.remove(&at);
        self.order.insert((entry.rank, entry.number), Arc::clone(&key));
        self.share(key);
        true
    }

    fn remove_at(&mut self, at: (Rank, u64)) {
        let Some(key) = self.order.remove(&at) else { return };
        self.deletions.remove(&key);
        if let Some(entry) = self.entries.remove(&key) {
            self.bytes -= weight(&key, entry.value.as_deref());
        }
    }
}

impl Entry {
    fn seen(&self, now: Timestamp) -> Seen<'_> {
        match &self.value {
            Some(value) if self.expires.is_none_or(|end| end > now) => {
                if self.joins {
                    Seen::Part(value)
                } else {
                    Seen::Live(value)
                }
            }
            _ => Seen::Gone,
        }
    }

    fn to_write(&self, key: &str, now: Timestamp) -> Write {
        match self.seen(now) {
            Seen::Live(value) => {
                Write::Put { key: key.to_owned(), value: value.to_owned(), ttl: self.expires.map(|end| end.since(now)) }
            }
            Seen::Part(value) => Write::Join {
                key: key.to_owned(),
                value: value.to_owned(),
                ttl: self.expires.map(|end| end.since(now)),
            },
            Seen::Gone | Seen::Unknown => Write::Delete { key: key.to_owned() },
        }
    }
}

/// Returns the expiry of a TTL that begins now.
pub fn after(now: Timestamp, ttl: Duration) -> Timestamp {
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_add(millis))
}

fn weight(key: &str, value: Option<&str>) -> usize {
    ENTRY_OVERHEAD + key.len() + value.map_or(0, str::len)
}

#[cfg(test)]
mod tests;
