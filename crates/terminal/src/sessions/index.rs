//! The index of all sessions, cached here and kept in the store, so that keys are not scanned. Once per process it is
//! reconciled with the existing sessions, some of which processes of earlier versions may have created.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::record::Record;
use super::room::KEPT_MAX;
use super::{DOOR, NotTaken, Sessions};
use domain::ids::Place;
use domain::keys::sessions as keys;
use domain::session_index::{Indexed, SessionIndex};
use ports::{Replaced, Stored, replace};

/// Age from which an indexed session without a record counts as gone, in milliseconds.
const BEGIN_TIMEOUT: u64 = 60_000;

/// Maximum number of sessions read while the index is reconciled.
const SCANNED_MAX: usize = 2 * KEPT_MAX;

/// Maximum number of possibly expired sessions checked when another one is created.
const SWEPT_MAX: usize = 64;

/// The number of rounds of [`replace`] when other processes win each compare-and-set, and the backoff before the first
/// further round; it grows by that much in each.
const ROUNDS: u32 = 6;
const ROUND_PAUSE: Duration = Duration::from_millis(20);

/// The index as this process knows it.
#[derive(Default)]
pub(super) struct Known {
    /// As last read or written.
    index: Arc<SessionIndex>,
    /// Sessions created while the store was offline.
    unwritten: BTreeMap<String, Indexed>,
    /// True once it was reconciled.
    mended: bool,
}

impl Sessions {
    /// Returns the index; while the store is offline, the cached one.
    pub(super) async fn index(&self) -> Arc<SessionIndex> {
        self.mend().await;
        let unwritten = !self.index.lock().unwritten.is_empty();
        if unwritten {
            self.change_index(|_| false).await;
        }
        let stored = self.store.read(keys::INDEX).await;
        // Parsed before the lock is taken: the index of all holders takes a while.
        let read = match stored {
            Stored::Unreadable(_) => None,
            stored => Some(stored.value().as_deref().and_then(SessionIndex::parse).unwrap_or_default()),
        };
        let mut known = self.index.lock();
        let known = &mut *known;
        if let Some(read) = read {
            known.index = Arc::new(read);
            let unwritten = known.unwritten.iter().map(|(place, session)| (place.as_str(), session));
            Arc::make_mut(&mut known.index).add(unwritten);
        }
        Arc::clone(&known.index)
    }

    /// Returns the index as last read or written here; reads it if that never happened.
    pub(super) async fn last_index(&self) -> Arc<SessionIndex> {
        {
            let known = self.index.lock();
            if known.mended {
                return Arc::clone(&known.index);
            }
        }
        self.index().await
    }

    /// Changes the index in the store, or only in memory while the store is offline. `change` returns true if it
    /// changed anything, and runs again after a conflict with another process. After repeated conflicts nothing is
    /// changed.
    pub(super) async fn change_index(&self, mut change: impl FnMut(&mut SessionIndex) -> bool + Send) -> Replaced {
        let _alone = self.indexing.lock().await;
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
                known.index = Arc::new(index);
            }
            (Replaced::Away, _) => {
                change(Arc::make_mut(&mut known.index));
            }
            (Replaced::Done | Replaced::Other, _) => {}
        }
        end
    }

    /// Assigns the number of a new session and adds it to the index.
    ///
    /// # Errors
    /// Too many sessions are being created at the same time.
    pub(super) async fn number(&self, place: &Place, name: &str, at: u64) -> Result<u64, NotTaken> {
        let mut number = 0;
        let entered = self.change_index(|index| {
            number = self.inner.lock().number_above(index.last());
            index.insert(&place.id, Indexed { name: name.to_owned(), number, at });
            true
        });
        match entered.await {
            Replaced::Done => {}
            // Another process may assign the same number now.
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

    /// Adds an existing session to the index if a process of an earlier version created it.
    pub(super) async fn is_there(&self, place: &Place, record: &Record) {
        if self.index.lock().index.get(&place.id).is_none() {
            let session = indexed(record);
            self.change_index(|index| index.add([(place.id.as_str(), &session)])).await;
        }
    }

    /// Removes expired sessions from the index, a few at a time.
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

    /// Reconciles the index with the sessions, once.
    async fn mend(&self) {
        if self.index.lock().mended {
            return;
        }
        let _alone = self.mending.lock().await;
        if self.index.lock().mended {
            return;
        }
        let Some(stored) = self.store.scan(keys::SESSIONS_PREFIX, SCANNED_MAX).await.whole() else { return };
        // If the scan was truncated, missing sessions may still exist.
        let all = stored.len() < SCANNED_MAX;
        let session = |(key, value): &(String, String)| {
            Some((key.rsplit(':').next()?.to_owned(), indexed(&serde_json::from_str(value).ok()?)))
        };
        let there: BTreeMap<String, Indexed> = stored.iter().filter_map(session).collect();
        let young = self.now().0.saturating_sub(BEGIN_TIMEOUT);
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
