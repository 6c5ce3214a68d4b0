//! The facts about members in the store: adding, searching and deleting them within their bounds. It lives outside the
//! actors, because turns and commands share it and a crash must not change its state.
//!
//! Each fact is its own record, so two processes that add facts of one member at the same moment keep both. One index
//! record for each member ([`FactIndex`]) lists the facts, so a search reads no other part of the store, regardless of
//! its size. The index is updated by read-modify-write, so one of two concurrent processes can lose the entry of the
//! other. After adding an entry, a process verifies it at once and once more later ([`FactKeeper::settle`]).

mod taking_back;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use crate::runtime::bounded_set::BoundedSet;
use crate::services::basics::Basics;
use crate::services::forgotten::Forgotten;
use crate::services::later::Later;
use crate::services::locks::Locks;
use domain::counter::Counter;
use domain::fact::index::{FactIndex, Named, ToldBy};
use domain::fact::search::Search;
use domain::fact::{Bounds, FACTS_MAX, FOUND_MAX, Fact, FactId, FactMatches, Here, NotKept, Remembered};
use domain::ids::{self, MessageId, Person, Timestamp};
use domain::incoming::Deletion;
use domain::keys;
use domain::tool::OnBehalf;
use ports::{Clock, Facts, Row, Store, Stored, Unreadable, Write, is_forgotten};

/// The maximum number of retries to add an entry that another process overwrote.
const TRIES: usize = 3;
/// The delay before an entry is verified again: longer than any write of another process takes.
const SETTLES_AFTER: Duration = Duration::from_secs(30);
/// The maximum number of entries to verify again; the oldest is dropped first.
const UNSETTLED_MAX: usize = 10_000;

/// The maximum number of deleted messages in the record; the oldest is evicted first.
const DELETIONS_MAX: usize = 10_000;
/// The maximum number of records read for one member.
const LOOK_MAX: usize = 10_000;

/// Returns the bounds from the current settings.
type BoundsNow = Box<dyn Fn() -> Bounds + Send + Sync>;

/// Stores the facts about members.
pub struct FactKeeper {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    bounds: BoundsNow,
    forgotten: Arc<Forgotten>,
    changing: Locks,
    unsettled: Mutex<VecDeque<(Instant, Person, Named)>>,
    /// The recently deleted messages: a message can be deleted before its request is complete.
    deletions: Mutex<BoundedSet<MessageId, DELETIONS_MAX>>,
    /// The deleted messages whose facts could not be looked up or read.
    undeleted: Mutex<Later>,
}

impl FactKeeper {
    /// Facts in the store, within the bounds of the settings in use.
    #[must_use]
    pub fn of(basics: &Basics) -> Self {
        let Basics { live, store, clock, .. } = basics.clone();
        Self::new(store, clock, move || live.now().settings.memory.bounds())
    }

    /// Facts in this store.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        bounds: impl Fn() -> Bounds + Send + Sync + 'static,
    ) -> Self {
        let changing = Locks::default();
        let (forgotten, unsettled) = (Arc::default(), Mutex::default());
        let (deletions, undeleted) = (Mutex::default(), Mutex::default());
        Self { store, clock, bounds: Box::new(bounds), forgotten, changing, unsettled, deletions, undeleted }
    }

    /// The record of forget requests, for facts and conversations.
    #[must_use]
    pub fn forgotten(&self) -> &Arc<Forgotten> {
        &self.forgotten
    }

    /// Returns all facts of a person that have not expired, from all places, newest first.
    pub(crate) async fn all(&self, person: &Person) -> Vec<Fact> {
        let index = self.index(person).await.unwrap_or_default();
        let mut facts = readable(self.read(person, index.all().iter()).await);
        facts.reverse();
        facts
    }

    /// Returns the facts of the asking member that are visible in the place, for a prompt: first those that match the
    /// question, then the newest. Empty if facts are disabled or the store does not respond.
    pub(crate) async fn recall(&self, asked: &OnBehalf, question: &str) -> Vec<Fact> {
        if !asked.keeps || (self.bounds)().facts == 0 {
            return Vec::new();
        }
        let mut facts = Vec::new();
        for account in asked.linked.from(&asked.person) {
            let here = Here::of(asked, account);
            let index = self.index(account).await.unwrap_or_default();
            let told = readable(self.read(account, index.found(here)).await);
            facts.extend(told.into_iter().filter(|fact| here.finds(&fact.place, fact.alone)));
        }
        let mut first = best(&facts, question, FOUND_MAX).await;
        facts.retain(|fact| !first.contains(fact));
        first.extend(facts.into_iter().rev());
        first
    }

    /// Deletes a fact of a person from any place. `None` if there is no such fact, else true if the deletion is
    /// durable.
    ///
    /// # Errors
    /// The store does not answer; nothing is deleted.
    pub(crate) async fn forget_any(&self, person: &Person, id: &FactId) -> Result<Option<bool>, NotKept> {
        self.remove(person, id, |_| true).await
    }

    /// Returns the facts in these rows of a person, including those missing from the index; unreadable records are
    /// skipped.
    pub(crate) fn stored(rows: &[Row]) -> Vec<Fact> {
        rows.iter().filter_map(|(_, stored)| serde_json::from_str(stored).ok()).collect()
    }

    /// Deletes all facts of a person told up to `cut`, or all facts. Returns true if the deletion is durable.
    pub(crate) async fn wipe(&self, person: &Person, cut: Option<Timestamp>) -> bool {
        let _changing = self.change(person).await;
        let over = |told: Timestamp| cut.is_none_or(|cut| told <= cut);
        let mut left = Vec::new();
        let mut writes = Vec::new();
        let prefix = keys::facts::facts_of(person);
        let scanned = self.store.scan_many(&[&prefix], LOOK_MAX, Some(person)).await.only();
        let complete = scanned.is_complete();
        for (key, stored) in scanned.part() {
            match serde_json::from_str::<Fact>(&stored) {
                Ok(fact) if !over(fact.told) => {
                    left.push(fact.id);
                    continue;
                }
                // All facts from one message have its timestamp.
                Ok(fact) => {
                    writes.push(Write::Delete { key: keys::facts::facts_by(&fact.message) });
                    writes.push(self.count(fact.told, -1));
                }
                // The record is unreadable and may belong to the person.
                Err(_) => {}
            }
            writes.push(Write::Delete { key });
        }
        let index = self.index(person).await;
        // An index that cannot be read lists facts that are left, and facts that are gone until the next change.
        let is_whole = index.is_ok() && complete;
        // Without a whole scan, facts that stay are not known.
        if let Ok(mut index) = index
            && (complete || cut.is_none())
        {
            let named = index.all().len();
            index.keep(|id| left.contains(id));
            if !writes.is_empty() || index.all().len() != named {
                writes.push(self.written(person, &index));
            }
        }
        (writes.is_empty() || self.store.commit(writes).await) && is_whole
    }

    /// Verifies the index entries of facts added some time before `now`, and adds entries again that another process
    /// overwrote. Deletes the facts of deleted messages that the store did not return before.
    pub async fn settle(&self, now: Instant) {
        let undeleted = self.undeleted.lock().take();
        for deletion in undeleted {
            self.deleted(&deletion).await;
        }
        let due: Vec<_> = {
            let mut unsettled = self.unsettled.lock();
            let due = unsettled.iter().take_while(|(due, ..)| *due <= now).count();
            unsettled.drain(..due).collect()
        };
        for (_, person, named) in due {
            let _changing = self.change(&person).await;
            let key = keys::facts::fact(&person, &named.id);
            let (Ok(mut index), Ok(fact)) = (self.index(&person).await, self.stored_at::<Fact>(&key).await) else {
                self.look_again(person, named);
                continue;
            };
            if index.get(&named.id).is_none() && fact.is_some() {
                index.put(named.clone());
                self.store.write(vec![self.written(&person, &index)]).await;
                self.look_again(person, named);
            }
        }
    }

    fn look_again(&self, person: Person, named: Named) {
        let mut unsettled = self.unsettled.lock();
        if unsettled.len() >= UNSETTLED_MAX {
            unsettled.pop_front();
        }
        unsettled.push_back((Instant::now() + SETTLES_AFTER, person, named));
    }

    /// Acquires the lock for changes of this member's facts in this process.
    async fn change(&self, person: &Person) -> MutexGuard<'_, ()> {
        self.changing.lock(person).await
    }

    /// Returns the text of a key; `None` if there is none, or another program wrote it.
    ///
    /// # Errors
    /// The store does not answer: a write would replace what was not read.
    async fn text_at(&self, key: &str) -> Result<Option<String>, NotKept> {
        match self.store.read(key).await {
            Stored::Unreadable(Unreadable::NoAnswer) => Err(NotKept::Away),
            stored => Ok(stored.value()),
        }
    }

    /// Returns the record of a key; `None` if there is none, or it is damaged.
    ///
    /// # Errors
    /// See [`text_at`](Self::text_at).
    async fn stored_at<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, NotKept> {
        Ok(self.text_at(key).await?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn index(&self, person: &Person) -> Result<FactIndex, NotKept> {
        let stored = self.text_at(&keys::facts::fact_index(person)).await?;
        let mut index = FactIndex::parse(stored.as_deref());
        index.expire(&(self.bounds)(), self.clock.now());
        Ok(index)
    }

    /// Returns the existing facts of these entries, in the same order, and an error for each that cannot be read.
    async fn read(&self, person: &Person, named: impl Iterator<Item = &Named>) -> Vec<Result<Fact, NotKept>> {
        let read = named.map(|named| async move {
            let key = keys::facts::fact(person, &named.id);
            self.stored_at::<Fact>(&key).await.transpose()
        });
        let (bounds, now) = ((self.bounds)(), self.clock.now());
        let read = join_all(read).await.into_iter().flatten();
        read.filter(|fact| fact.as_ref().map_or(true, |fact| !bounds.is_over(fact.told, now))).collect()
    }

    /// The write of the index.
    fn written(&self, person: &Person, index: &FactIndex) -> Write {
        let key = keys::facts::fact_index(person);
        match index.all() {
            [] => Write::Delete { key },
            _ => Write::Put { key, value: index.to_json(), ttl: Some((self.bounds)().ttl) },
        }
    }

    fn count(&self, told: Timestamp, by: i64) -> Write {
        let ttl = Some((self.bounds)().ttl + keys::facts::FACTS_TOLD_STEP);
        Write::Add { key: keys::facts::facts_told(step(told)), by: Counter::from(by), ttl }
    }

    /// The approximate number of facts of all members: at least those that have not expired.
    ///
    /// # Errors
    /// The store does not answer.
    async fn total(&self, bounds: &Bounds) -> Result<u64, NotKept> {
        let now = self.clock.now();
        let oldest = Timestamp(now.0.saturating_sub(ids::millis(bounds.ttl)));
        let counts = (step(oldest)..=step(now)).map(|step| async move {
            let stored = self.text_at(&keys::facts::facts_told(step)).await?;
            Ok(stored.and_then(|text| text.parse::<i64>().ok()).unwrap_or_default())
        });
        let counts: Vec<i64> = join_all(counts).await.into_iter().collect::<Result<_, NotKept>>()?;
        Ok(u64::try_from(counts.into_iter().sum::<i64>()).unwrap_or(0))
    }

    /// Deletes the facts from a message, unless a later message told them again: new readers of the place cannot read
    /// that message. While the store does not answer, the deletion waits for [`settle`](Self::settle).
    pub async fn deleted(&self, deletion: &Deletion) {
        self.deletions.lock().insert(&deletion.message);
        if self.delete_told(&deletion.message).await.is_err() {
            self.delete_later(deletion.clone());
        }
    }

    /// Lets the next [`settle`](Self::settle) delete the facts from a message.
    pub fn delete_later(&self, deletion: Deletion) {
        self.deletions.lock().insert(&deletion.message);
        self.undeleted.lock().add(deletion);
    }

    async fn delete_told(&self, message: &MessageId) -> Result<(), NotKept> {
        let Some(told) = self.told_by(message).await? else { return Ok(()) };
        for id in &told.facts {
            self.remove(&told.person, id, |fact| fact.message == *message).await?;
        }
        Ok(())
    }

    async fn told_by(&self, message: &MessageId) -> Result<Option<ToldBy>, NotKept> {
        self.stored_at(&keys::facts::facts_by(message)).await
    }

    /// The write of the message's fact list, with one fact added.
    async fn tells(&self, person: &Person, fact: &Fact, bounds: &Bounds) -> Result<Write, NotKept> {
        let told = self.told_by(&fact.message).await?;
        let mut told = told.unwrap_or_else(|| ToldBy { person: person.clone(), facts: Vec::new() });
        if !told.facts.contains(&fact.id) && told.facts.len() < FACTS_MAX {
            told.facts.push(fact.id.clone());
        }
        // Plain data always serializes.
        let value = serde_json::to_string(&told).unwrap_or_default();
        Ok(Write::Put { key: keys::facts::facts_by(&fact.message), value, ttl: Some(bounds.ttl) })
    }

    /// The write of the message's fact list, without this fact.
    async fn tells_no_more(&self, fact: &Fact) -> Result<Write, NotKept> {
        let key = keys::facts::facts_by(&fact.message);
        let told = self.told_by(&fact.message).await?.map(|mut told| {
            told.facts.retain(|id| *id != fact.id);
            told
        });
        Ok(match told.filter(|told| !told.facts.is_empty()) {
            Some(told) => {
                let value = serde_json::to_string(&told).unwrap_or_default();
                Write::Put { key, value, ttl: Some((self.bounds)().ttl) }
            }
            None => Write::Delete { key },
        })
    }

    /// Adds a fact to the index of its member, and writes both.
    async fn add(&self, person: &Person, fact: &Fact, bounds: &Bounds) -> Result<bool, NotKept> {
        let mut index = self.index(person).await?;
        let before: Option<Fact> = self.stored_at(&keys::facts::fact(person, &fact.id)).await?;
        if before.is_none() {
            if index.all().len() >= bounds.facts {
                // The index can list facts that another process deleted.
                let there = self.read(person, index.all().iter()).await;
                let there: Vec<Fact> = there.into_iter().collect::<Result<_, NotKept>>()?;
                index.keep(|id| there.iter().any(|fact| fact.id == *id));
            }
            if index.all().len() >= bounds.facts {
                return Err(NotKept::Full(bounds.facts));
            }
            if self.total(bounds).await? >= bounds.total {
                return Err(NotKept::NoRoom);
            }
        }
        index.put(Named::from(fact));
        // Plain data always serializes.
        let value = serde_json::to_string(fact).unwrap_or_default();
        let put = Write::Put { key: keys::facts::fact(person, &fact.id), value, ttl: Some(bounds.ttl) };
        let mut writes = vec![put, self.written(person, &index), self.count(fact.told, 1)];
        if let Some(before) = &before {
            writes.push(self.count(before.told, -1));
            if before.message != fact.message {
                writes.push(self.tells_no_more(before).await?);
            }
        }
        writes.push(self.tells(person, fact, bounds).await?);
        let durable = {
            // Deletions are recorded before the records are searched, so a write that starts here is seen.
            let (saving, deletions) = (self.forgotten.saving(), self.deletions.lock());
            if saving.covers_person(person, fact.told) {
                return Err(NotKept::Forgotten);
            }
            if deletions.contains(&fact.message) {
                return Err(NotKept::Deleted);
            }
            self.store.commit(writes)
        };
        if durable.await {
            return Ok(before.is_some());
        }
        // If the store answers no read either, it holds the fact in memory alone.
        let _ = self.take_back(person, fact, before, bounds).await;
        Err(NotKept::Away)
    }

    /// Deletes a fact if `may` permits it. `None` if there is no such fact, else true if the deletion is durable.
    ///
    /// # Errors
    /// The store does not answer; nothing is written.
    async fn remove(&self, person: &Person, id: &FactId, may: impl Fn(&Fact) -> bool) -> Result<Option<bool>, NotKept> {
        let _changing = self.change(person).await;
        let stored: Option<Fact> = self.stored_at(&keys::facts::fact(person, id)).await?;
        let Some(fact) = stored.filter(may) else { return Ok(None) };
        let writes = self.removal(person, &fact).await?;
        Ok(Some(self.store.commit(writes).await))
    }

    /// The writes that delete a fact.
    async fn removal(&self, person: &Person, fact: &Fact) -> Result<Vec<Write>, NotKept> {
        let mut index = self.index(person).await?;
        index.remove(&fact.id);
        Ok(vec![
            Write::Delete { key: keys::facts::fact(person, &fact.id) },
            self.written(person, &index),
            self.count(fact.told, -1),
            self.tells_no_more(fact).await?,
        ])
    }
}

#[async_trait]
impl Facts for FactKeeper {
    async fn remember(&self, asked: &OnBehalf, text: &str) -> Result<Remembered, NotKept> {
        let (bounds, person) = ((self.bounds)(), &asked.person);
        let fact = Fact::new(asked, text, bounds)?;
        let _changing = self.change(person).await;
        if is_forgotten(&*self.store, person, asked.at).await {
            return Err(NotKept::Forgotten);
        }
        let before = self.add(person, &fact, &bounds).await?;
        for _ in 0..TRIES {
            // An index that cannot be read is verified later.
            let Ok(mut index) = self.index(person).await else { break };
            if index.get(&fact.id).is_some() {
                break;
            }
            index.put(Named::from(&fact));
            self.store.write(vec![self.written(person, &index)]).await;
        }
        self.look_again(person.clone(), Named::from(&fact));
        Ok(Remembered { id: fact.id, before })
    }

    async fn search(&self, asked: &OnBehalf, query: &str) -> Result<FactMatches, NotKept> {
        let mut facts = Vec::new();
        for account in asked.linked.from(&asked.person) {
            let here = Here::of(asked, account);
            let index = self.index(account).await?;
            let told = self.read(account, index.found(here)).await;
            let told: Vec<Fact> = told.into_iter().collect::<Result<_, NotKept>>()?;
            // The record of the fact decides in which place it was told.
            facts.extend(told.into_iter().filter(|fact| here.finds(&fact.place, fact.alone)));
        }
        Ok(FactMatches { facts: best(&facts, query, FOUND_MAX).await, all: facts.len() })
    }

    async fn forget(&self, asked: &OnBehalf, fact: &FactId) -> Result<bool, NotKept> {
        for account in asked.linked.from(&asked.person) {
            let here = Here::of(asked, account);
            match self.remove(account, fact, |fact| here.finds(&fact.place, fact.alone)).await? {
                Some(true) => return Ok(true),
                Some(false) => return Err(NotKept::Away),
                None => {}
            }
        }
        Ok(false)
    }
}

/// Leaves out the facts that cannot be read, for a reader that writes nothing.
fn readable(facts: Vec<Result<Fact, NotKept>>) -> Vec<Fact> {
    facts.into_iter().flatten().collect()
}

/// Returns the facts that match these words best, best first; without words the newest.
pub(crate) async fn best(facts: &[Fact], query: &str, most: usize) -> Vec<Fact> {
    let mut search = Search::new(query);
    for fact in facts {
        search.look(fact);
        // Yields to other tasks.
        tokio::task::yield_now().await;
    }
    search.best(most).into_iter().map(|at| facts[at].clone()).collect()
}

/// The time step in which a fact of this timestamp is counted.
fn step(told: Timestamp) -> u64 {
    told.0 / ids::millis(keys::facts::FACTS_TOLD_STEP)
}

#[cfg(test)]
mod tests;
