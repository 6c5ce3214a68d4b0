//! Deletion and eviction of sessions.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{holder, owner_of};
use super::{DOOR, Sessions};
use domain::ids::Place;
use domain::keys::sessions as keys;
use ports::Write;

/// Maximum number of sessions of one holder, or of all callers without a key; the least recently used is evicted.
pub(super) const OWN_MAX: usize = 200;
/// Maximum number of all sessions; the holder with most of them loses the least recently used one.
pub(super) const KEPT_MAX: usize = 1_000;
/// Number of sessions deleted in one write.
const ENDED_AT_ONCE: usize = 64;

impl Sessions {
    /// Deletes a session completely. Its record names its lines, so the cost is proportional to them. A line that
    /// another process writes concurrently is missing in the record and invisible; that process removes it
    /// ([`Self::over`]).
    pub async fn remove(&self, place: &Place) {
        let writes = self.gone(place).await;
        self.inner.lock().remove(place);
        self.store.commit(writes).await;
        self.change_index(|index| index.remove([place.id.as_str()])).await;
    }

    /// Returns the writes that delete a session from the store.
    async fn gone(&self, place: &Place) -> Vec<Write> {
        // Of a record that cannot be read, the lines that are not cached stay until they expire.
        let stored = self.record(place).await.ok().flatten();
        let mut numbers: BTreeSet<u64> = stored.iter().flat_map(|record| record.numbers.iter().copied()).collect();
        if let Some(known) = self.inner.lock().record(place) {
            numbers.extend(known.numbers);
        }
        if stored.is_some_and(|record| !record.is_numbered()) {
            numbers.extend(self.stored_lines(place).await.part().into_iter().map(|(number, _)| number));
        }
        let session = Write::Delete { key: keys::session(&owner_of(place), place) };
        without_lines(place, numbers).chain([session]).collect()
    }

    /// Evicts a session that is certainly not stored, because another process deleted it, and deletes its lines that are cached here.
    pub(super) fn over(&self, place: &Place) {
        let known = {
            let mut inner = self.inner.lock();
            let known = inner.record(place);
            inner.remove(place);
            known
        };
        let lines: Vec<Write> = without_lines(place, known.into_iter().flat_map(|record| record.numbers)).collect();
        if !lines.is_empty() {
            drop(self.store.write(lines));
        }
    }

    /// Evicts sessions after one was created: of the same holder, else of the holder with most. Only the records of
    /// affected holders are read.
    pub(super) async fn make_room(&self, begun: &Place) {
        let index = self.index().await;
        let all: Vec<Place> = index.all().map(|(id, _)| Place::new(DOOR, id)).collect();
        let mut quotas = quotas(&all, holder(begun));
        let looked = all.iter().filter(|place| *place != begun && quotas.contains_key(&holder(place)));
        let looked: Vec<Place> = looked.cloned().collect();
        if looked.is_empty() {
            return;
        }
        let Some(mut there) = self.all_records(looked.clone()).await else { return };
        let known: BTreeSet<&str> = there.iter().map(|(place, _)| place.id.as_str()).collect();
        let over = looked.iter().filter(|place| !known.contains(&*place.id)).cloned();
        let mut gone: Vec<Place> = over.collect();
        for place in &gone {
            quotas.entry(holder(place)).and_modify(|left| *left = left.saturating_sub(1));
        }
        there.sort_by_key(|(_, record)| record.touched_at);
        let mut ended: Vec<Place> = Vec::new();
        for (place, _) in &there {
            if let Some(left) = quotas.get_mut(&holder(place)).filter(|left| **left > 0) {
                *left -= 1;
                ended.push(place.clone());
            }
        }
        for some in ended.chunks(ENDED_AT_ONCE) {
            let mut writes = Vec::new();
            for place in some {
                writes.extend(self.gone(place).await);
                self.inner.lock().remove(place);
            }
            self.store.commit(writes).await;
        }
        {
            let mut evicted = self.evicted.lock();
            evicted.extend(ended.iter().cloned());
            // A stream that is left open here ends when it is quiet.
            let over = evicted.len().saturating_sub(KEPT_MAX);
            evicted.drain(..over);
        }
        gone.extend(ended);
        self.change_index(|index| index.remove(gone.iter().map(|place| &*place.id))).await;
    }
}

fn without_lines(place: &Place, numbers: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Write> {
    let person = owner_of(place);
    numbers.into_iter().map(move |number| Write::Delete { key: keys::line(&person, place, number) })
}

/// Returns the number of sessions to evict per holder: first of the new session's holder beyond their maximum, then of
/// the holder with most while the total is exceeded.
fn quotas<'a>(all: &'a [Place], own: Option<&'a str>) -> BTreeMap<Option<&'a str>, usize> {
    let mut many: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for place in all {
        *many.entry(holder(place)).or_default() += 1;
    }
    let (mut quotas, mut left) = (BTreeMap::new(), all.len());
    let theirs = many.entry(own).or_default();
    if *theirs > OWN_MAX {
        let more = *theirs - OWN_MAX;
        quotas.insert(own, more);
        (*theirs, left) = (OWN_MAX, left - more);
    }
    while left > KEPT_MAX {
        let Some((most, many)) = many.iter_mut().max_by_key(|(_, many)| **many) else { break };
        *quotas.entry(*most).or_default() += 1;
        (*many, left) = (many.saturating_sub(1), left - 1);
    }
    quotas
}
