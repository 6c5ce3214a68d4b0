//! The index of all sessions, as this process knows it and as the store keeps it. With it nobody looks through all keys, but once
//! in each life of the process: then it is compared with the sessions that there are, which versions before this one began, too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::record::Record;
use super::room::KEPT_MAX;
use super::{DOOR, NotTaken, Sessions};
use domain::ids::Place;
use domain::keys::sessions as keys;
use domain::session_index::{Indexed, SessionIndex};
use ports::{Replaced, StoreStatus, replace};

/// A session that the index names and that is not there is none any more, if it began before this: in milliseconds.
const BEGUN_WITHIN: u64 = 60_000;

/// The most sessions that are read when the index is compared with them.
const SCANNED_MAX: usize = 2 * KEPT_MAX;

/// How many sessions that may be over are looked at when another one begins.
const SWEPT_MAX: usize = 64;

/// How often the index is changed again when other processes were faster each time that [`replace`] tried, and the pause before the first
/// of these rounds; each further one is longer by it.
const ROUNDS: u32 = 6;
const ROUND_PAUSE: Duration = Duration::from_millis(20);

/// What this process knows of the index.
#[derive(Default)]
pub(super) struct Known {
    /// As it was read or written last.
    index: SessionIndex,
    /// Sessions that began while the store was away.
    unwritten: BTreeMap<String, Indexed>,
    /// It was compared with the sessions that there are.
    mended: bool,
}

impl Sessions {
    /// All sessions. While the store is away, those that were known before.
    pub(super) async fn index(&self) -> SessionIndex {
        self.mend().await;
        let unwritten = !self.index.lock().unwritten.is_empty();
        if unwritten {
            self.change_index(|_| false).await;
        }
        let ready = self.is_ready();
        let stored = self.store.get(keys::INDEX).await;
        let mut known = self.index.lock();
        let known = &mut *known;
        if ready && self.is_ready() {
            known.index = stored.as_deref().and_then(SessionIndex::parse).unwrap_or_default();
            known.index.add(known.unwritten.iter().map(|(place, session)| (place.as_str(), session)));
        }
        known.index.clone()
    }

    /// Whether the store shows what it keeps.
    pub(super) fn is_ready(&self) -> bool {
        self.store.status() == StoreStatus::Ready
    }

    /// Changes the index: in the store, or in memory alone while that is away. `change` says whether it changed anything, and is asked
    /// again when another process was faster. Nothing is changed where others were faster again and again.
    pub(super) async fn change_index(&self, mut change: impl FnMut(&mut SessionIndex) -> bool + Send) -> Replaced {
        let unwritten = self.index.lock().unwritten.clone();
        let mut latest = None;
        let mut end = Replaced::Other;
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(ROUND_PAUSE * round).await;
            }
            end = replace(&*self.store, keys::INDEX, |stored| {
                let mut index = stored.and_then(SessionIndex::parse).unwrap_or_default();
                let added = index.add(unwritten.iter().map(|(place, session)| (place.as_str(), session)));
                let changed = change(&mut index) || added;
                let text = changed.then(|| index.to_json());
                latest = Some(index);
                text
            })
            .await;
            if end != Replaced::Other {
                break;
            }
        }
        let mut known = self.index.lock();
        match (end, latest) {
            (Replaced::Done, Some(index)) => {
                known.unwritten.retain(|place, _| !unwritten.contains_key(place));
                known.index = index;
            }
            (Replaced::Away, _) => {
                change(&mut known.index);
            }
            (Replaced::Done | Replaced::Other, _) => {}
        }
        end
    }

    /// The number of a session that begins now, which is in the index from then on.
    ///
    /// # Errors
    /// Too many others begin at the same moment.
    pub(super) async fn number(&self, place: &Place, name: &str, at: u64) -> Result<u64, NotTaken> {
        let mut number = 0;
        let entered = self.change_index(|index| {
            number = self.inner.lock().number_above(index.last());
            index.insert(&place.id, Indexed { name: name.to_owned(), number, at });
            true
        });
        match entered.await {
            Replaced::Done => {}
            // Another process may be given the same number now.
            Replaced::Other => return Err(NotTaken::Crowded),
            Replaced::Away => {
                let session = Indexed { name: name.to_owned(), number, at };
                let mut known = self.index.lock();
                known.unwritten.insert(place.id.to_string(), session);
                while known.unwritten.len() > KEPT_MAX {
                    known.unwritten.pop_first();
                }
            }
        }
        Ok(number)
    }

    /// A session is there: it is in the index too, where a process of an earlier version began it.
    pub(super) async fn is_there(&self, place: &Place, record: &Record) {
        if self.index.lock().index.get(&place.id).is_none() {
            let session = indexed(record);
            self.change_index(|index| index.add([(place.id.as_str(), &session)])).await;
        }
    }

    /// Takes sessions out of the index that are over, a few at a time.
    pub(super) async fn sweep(&self) {
        let doubtful = self.index().await.doubtful(self.now(), (self.kept_for)());
        let doubtful: Vec<Place> = doubtful.into_iter().take(SWEPT_MAX).map(|place| Place::new(DOOR, place)).collect();
        if doubtful.is_empty() {
            return;
        }
        let Some(there) = self.all_records(doubtful.clone()).await else { return };
        self.change_index(|index| {
            let removed = index.remove(doubtful.iter().map(|place| place.id.as_str()));
            for (place, record) in &there {
                index.insert(&place.id, indexed(record));
            }
            removed
        })
        .await;
    }

    /// Compares the index with the sessions that there are, once.
    async fn mend(&self) {
        let _alone = self.mending.lock().await;
        if self.index.lock().mended {
            return;
        }
        let ready = self.is_ready();
        let stored = self.store.scan(keys::SESSIONS_PREFIX, SCANNED_MAX).await;
        if !(ready && self.is_ready()) {
            return;
        }
        // Of more than these it is not known which are over.
        let all = stored.len() < SCANNED_MAX;
        let session = |(key, value): &(String, String)| {
            Some((key.rsplit(':').next()?.to_owned(), indexed(&serde_json::from_str(value).ok()?)))
        };
        let there: BTreeMap<String, Indexed> = stored.iter().filter_map(session).collect();
        let young = self.now().0.saturating_sub(BEGUN_WITHIN);
        let mended = self.change_index(|index| {
            let over = index.all().filter(|(place, session)| all && session.at < young && !there.contains_key(*place));
            let over: Vec<String> = over.map(|(place, _)| place.to_owned()).collect();
            let removed = index.remove(over.iter().map(String::as_str));
            index.add(there.iter().map(|(place, session)| (place.as_str(), session))) || removed
        });
        let mended = mended.await;
        self.index.lock().mended = mended == Replaced::Done;
    }
}

fn indexed(record: &Record) -> Indexed {
    Indexed { name: record.name.clone(), number: record.number, at: record.touched_at }
}
