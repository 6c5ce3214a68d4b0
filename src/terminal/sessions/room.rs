//! How sessions end, and which of them make room for others.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{holder, owner_of};
use super::record::Record;
use super::{DOOR, Sessions};
use crate::domain::ids::Place;
use crate::domain::keys::sessions as keys;
use crate::ports::Write;

/// The most sessions that are kept of one holder, or of all who have no key; the one that was quiet for longest makes room.
pub(super) const OWN_MAX: usize = 200;
/// The most sessions that are kept of all together; whoever has most makes room.
pub(super) const KEPT_MAX: usize = 1_000;

/// What becomes of lines of a session that ends, which another process wrote at the same moment as this one, so that its record does not name
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strays {
    /// They go with it: the keys of the store are looked through.
    Go,
    /// They end by themselves, as lines do.
    Stay,
}

impl Sessions {
    /// Ends a session: nothing of it is kept.
    pub(in crate::terminal) async fn remove(&self, place: &Place) {
        self.end(place, Strays::Go).await;
    }

    async fn end(&self, place: &Place, strays: Strays) {
        let writes = self.gone(place, strays).await;
        self.inner.lock().remove(place);
        self.store.commit(writes).await;
        self.change_index(|index| index.remove([place.id.as_str()])).await;
    }

    /// The writes that take a session out of the store.
    async fn gone(&self, place: &Place, strays: Strays) -> Vec<Write> {
        let person = owner_of(place);
        let stored = self.record(place).await;
        let mut numbers: BTreeSet<u64> = stored.iter().flat_map(|record| record.numbers.iter().copied()).collect();
        if let Some(known) = self.inner.lock().record(place) {
            numbers.extend(known.numbers);
        }
        if strays == Strays::Go || stored.is_some_and(|record| !record.is_numbered()) {
            numbers.extend(self.stored_lines(place).await.into_iter().map(|(number, _)| number));
        }
        let lines = numbers.into_iter().map(|number| Write::Delete { key: keys::line(&person, place, number) });
        lines.chain([Write::Delete { key: keys::session(&person, place) }]).collect()
    }

    /// Sessions of the same holder make room for one more of theirs, and else those of whoever has most.
    pub(super) async fn make_room(&self, own: Option<&str>) {
        let index = self.index().await;
        let all: Vec<Place> = index.all().map(|(id, _)| Place::new(DOOR, id)).collect();
        let looked: Vec<Place> =
            if all.len() >= KEPT_MAX { all } else { all.into_iter().filter(|place| holder(place) == own).collect() };
        if looked.len() < OWN_MAX {
            return;
        }
        let Some(there) = self.all_records(looked.clone()).await else { return };
        let known: BTreeSet<&str> = there.iter().map(|(place, _)| place.id.as_str()).collect();
        let over: Vec<&str> = looked.iter().map(|place| place.id.as_str()).filter(|id| !known.contains(id)).collect();
        if !over.is_empty() {
            self.change_index(|index| index.remove(over.iter().copied())).await;
        }
        for place in too_many(&there, own) {
            self.end(&place, Strays::Stay).await;
        }
    }
}

/// Which sessions make room for one more of this holder: theirs while there are too many of them, then those of whoever has most while there
/// are too many of all; of each the one that was quiet for longest first.
fn too_many(there: &[(Place, Record)], own: Option<&str>) -> Vec<Place> {
    let mut by_holder: BTreeMap<Option<&str>, Vec<&(Place, Record)>> = BTreeMap::new();
    for session in there {
        by_holder.entry(holder(&session.0)).or_default().push(session);
    }
    for sessions in by_holder.values_mut() {
        sessions.sort_by_key(|(_, record)| std::cmp::Reverse(record.touched_at));
    }
    let mut ended = Vec::new();
    let theirs = by_holder.entry(own).or_default();
    ended.extend(theirs.split_off(theirs.len().min(OWN_MAX - 1)));
    while there.len() - ended.len() >= KEPT_MAX {
        let most = by_holder.values_mut().max_by_key(|sessions| sessions.len());
        let Some(quietest) = most.and_then(Vec::pop) else { break };
        ended.push(quietest);
    }
    ended.into_iter().map(|(place, _)| place.clone()).collect()
}
