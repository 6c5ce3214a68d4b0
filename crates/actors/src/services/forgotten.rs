//! The requests of members to be forgotten, kept as long as a turn in progress can still save affected data.
//!
//! A turn holds the memory that it read and saves it at its end. A save holds the lock of this record and removes the
//! data to forget; a forget request is recorded here first and deletes afterwards. So no deleted data is saved again.
//!
//! Other processes on the same store learn of a request from a record there ([`Wished`]): a turn reads it when it
//! saves, while its answer is being posted, and removes the data to forget; a turn of an earlier process reads it before
//! it continues, and so does one whose question is read back. A request at the very moment of that read can be missed,
//! so the process that handled it cleans up again once no earlier turn can be left (`commands/cleaning.rs`).

use std::collections::{BTreeSet, HashMap, VecDeque};

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::runtime::bounded_set::BoundedSet;
use crate::services::later::Later;
use crate::services::running::Running;
use domain::forgetting::Forgetting;
use domain::ids::{self, MessageId, Person, Place, Timestamp};
use domain::incoming::Deletion;
use domain::keys;
use domain::planted::Defect;
use domain::turn::Turn;
use ports::{Store, Stored, Unreadable, Write};

/// The maximum number of requests in the record; the oldest of a single conversation is evicted first. A request is relevant for at most the
/// duration of a turn.
const WISHES_MAX: usize = 10_000;

/// The maximum number of deleted messages in the record, and of deleted questions; the oldest is evicted first.
const DELETIONS_MAX: usize = 10_000;

/// The record of forget requests and of deleted messages. It is lost with the process, as is every turn in progress.
#[derive(Default)]
pub struct Forgotten(Mutex<Wishes>);

/// The locked record: no forget request and no other save proceeds meanwhile.
pub struct Saving<'a>(MutexGuard<'a, Wishes>);

/// A position in the order of requests, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(u64, Instant);

/// The time after the last deadline of a turn in which its data can still be written.
const GRACE: Duration = Duration::from_secs(60);
/// The maximum clock difference between two processes for a request to count as later than the read of a turn.
const SKEW: Duration = Duration::from_secs(2);

/// The time in which an unfinished request is repeated.
pub(crate) const UNFINISHED_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A forget request as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wished {
    /// The person to forget.
    pub person: Person,
    /// The place of a single conversation; `None` covers all data.
    pub place: Option<Place>,
    /// Data up to this moment is to be forgotten.
    pub cut: Timestamp,
    /// The time when the request was recorded.
    pub noted: Timestamp,
    /// True until all data was deleted once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
}

impl Wished {
    /// The write of the record. Its TTL exceeds the duration of any turn that can hold affected data; the record of an
    /// unfinished request lets later processes finish it.
    pub(crate) fn record(&self, running: &Running) -> Write {
        let key = keys::forgotten(&self.person, self.place.as_ref());
        let holds = Self::holds_for(running) * 2;
        let ttl = Some(if self.unfinished { UNFINISHED_TTL.max(holds) } else { holds });
        // Plain data with string keys always serializes.
        Write::Put { key, value: serde_json::to_string(self).unwrap_or_default(), ttl }
    }

    /// Returns the stored request about all data of this person; `None` if there is none or it cannot be read.
    pub(crate) async fn of(store: &dyn Store, person: &Person) -> Option<Self> {
        store.get(&keys::forgotten(person, None)).await.and_then(|text| serde_json::from_str(&text).ok())
    }

    /// The time after the request in which an earlier turn can still save data.
    pub(crate) fn holds_for(running: &Running) -> Duration {
        running.settings.turn.lease() + GRACE
    }
}

/// Returns a stored request. One that is no longer readable counts as made at `now`, for all data until then: that of a
/// member who asked for nothing is stored again after its TTL. While the store does not answer, the second pass of the
/// process that recorded it remains.
pub(crate) async fn stored(
    store: &dyn Store,
    person: &Person,
    place: Option<&Place>,
    now: Timestamp,
) -> Option<Wished> {
    let text = match store.read(&keys::forgotten(person, place)).await {
        Stored::Absent | Stored::Unreadable(Unreadable::NoAnswer) => return None,
        Stored::Value(text) | Stored::Part(text) => text,
        Stored::Unreadable(Unreadable::NotText) => String::new(),
    };
    let all = |_| Wished { person: person.clone(), place: place.cloned(), cut: now, noted: now, unfinished: false };
    Some(serde_json::from_str(&text).unwrap_or_else(all))
}

/// A member's question, as far as a request to be forgotten may concern it.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub person: &'a Person,
    pub place: &'a Place,
    pub at: Timestamp,
}

/// The history that was read for a question.
#[derive(Clone, Copy)]
pub(crate) struct HistoryRead<'a> {
    /// The other members whose text it contains.
    pub others: &'a [Person],
    /// The moment of the read.
    pub read: Moment,
}

/// The stored requests that restrict the save of a turn.
pub(crate) struct StoredWishes {
    /// True if nothing from the question may be kept.
    pub covers: bool,
    own: Vec<Wished>,
    others: Vec<Wished>,
}

impl StoredWishes {
    /// Reads the requests that concern a question, and the history that was read for it.
    pub(crate) async fn of(
        store: &dyn Store,
        now: Timestamp,
        question: Question<'_>,
        history: HistoryRead<'_>,
    ) -> Self {
        let (Question { person, place, at }, HistoryRead { others, read }) = (question, history);
        let read_at = Timestamp(now.0.saturating_sub(ids::millis(read.1.elapsed() + SKEW)));
        let others = join_all(others.iter().map(|person| stored(store, person, None, now)));
        let own = [None, Some(place)].map(|place| stored(store, person, place, now));
        let (own, others) = tokio::join!(join_all(own), others);
        let later = |wish: &Wished| wish.noted >= read_at;
        let own: Vec<Wished> = own.into_iter().flatten().collect();
        Self {
            covers: own.iter().any(|wish| at <= wish.cut),
            own: own.into_iter().filter(later).collect(),
            others: others.into_iter().flatten().filter(later).collect(),
        }
    }

    /// The requests made after the history was read.
    pub(crate) fn later(&self) -> impl Iterator<Item = &Wished> {
        self.own.iter().chain(&self.others)
    }

    /// Removes the data to forget.
    pub(crate) fn clean(&self, kept: &mut impl Forgetting) {
        if let Some(cut) = self.own.iter().map(|wish| wish.cut).max() {
            kept.forget_until(cut);
        }
        for wish in &self.others {
            kept.forget_asked_by(&wish.person, wish.cut);
        }
    }
}

#[derive(Default)]
struct Wishes {
    known: HashMap<(Person, Option<Place>), Wish>,
    order: VecDeque<(Person, Option<Place>)>,
    count: u64,
    /// The deleted messages: a message can be deleted before its exchange is saved.
    deleted: BoundedSet<MessageId, DELETIONS_MAX>,
    /// The deleted questions whose removal from the store is in progress: every save leaves them out.
    withdrawing: Vec<Withdrawn>,
    /// The deleted questions that were removed from the store.
    withdrawn: VecDeque<Withdrawn>,
    /// The deleted messages whose questions could not be removed yet.
    later: Later,
}

/// A deleted question, with the number of the end of its removal in the order of requests.
struct Withdrawn {
    person: Person,
    place: Place,
    at: Timestamp,
    number: u64,
}

#[derive(Clone, Copy)]
struct Wish {
    /// Data up to this moment is to be forgotten.
    cut: Timestamp,
    /// Data read before this moment can contain data to forget.
    number: u64,
}

impl Forgotten {
    /// Records that all data of this person, or only the conversation in one place, up to this moment is to be
    /// forgotten. Call it before the deletion and again after it, because reads in between can return the old state. A
    /// request that covers more stays: commands are repeated after a restart, in any order.
    pub fn wish(&self, person: &Person, place: Option<&Place>, cut: Timestamp) {
        let mut wishes = self.0.lock();
        wishes.count += 1;
        let number = wishes.count;
        let key = (person.clone(), place.cloned());
        let cut = wishes.known.get(&key).map_or(cut, |known| known.cut.max(cut));
        if wishes.known.insert(key.clone(), Wish { cut, number }).is_none() {
            wishes.order.push_back(key);
        }
        if wishes.order.len() > WISHES_MAX {
            // A member has many conversations, and one request about all data.
            let first = wishes.order.iter().position(|(_, place)| place.is_some()).unwrap_or_default();
            if let Some(oldest) = wishes.order.remove(first) {
                wishes.known.remove(&oldest);
            }
        }
    }

    /// Returns the moment up to which the data of this person, or the conversation in one place, is to be forgotten.
    pub(crate) fn cut(&self, person: &Person, place: Option<&Place>) -> Option<Timestamp> {
        self.0.lock().known.get(&(person.clone(), place.cloned())).map(|wish| wish.cut)
    }

    /// Records the stored requests that cover this question. An earlier process may have recorded them in the store
    /// alone; without this, the exchange would be saved and be in the prompt of the next question until it is cleaned.
    pub(crate) async fn take_up(&self, store: &dyn Store, now: Timestamp, question: Question<'_>) {
        let Question { person, place, at } = question;
        let (all, here) = tokio::join!(stored(store, person, None, now), stored(store, person, Some(place), now));
        for wish in all.into_iter().chain(here).filter(|wish| at <= wish.cut) {
            self.wish(&wish.person, wish.place.as_ref(), wish.cut);
        }
    }

    /// Records the deletion of a message: the exchange of its turn is not saved any more.
    pub fn deleted(&self, message: &MessageId) {
        self.0.lock().deleted.insert(message);
    }

    /// Records that the question of a deleted message could not be removed yet.
    pub(crate) fn withdraw_later(&self, deletion: Deletion) {
        self.0.lock().later.add(deletion);
    }

    /// Takes the deleted messages whose questions could not be removed yet.
    pub(crate) fn take_later(&self) -> Vec<Deletion> {
        self.0.lock().later.take()
    }

    /// Records that the question of a deleted message is being removed from the store. Drop the guard after the removal:
    /// reads until then can return the old state.
    pub(crate) fn withdraw(&self, person: &Person, place: &Place, at: Timestamp) -> Withdrawing<'_> {
        let mut wishes = self.0.lock();
        wishes.count += 1;
        let number = wishes.count;
        wishes.withdrawing.push(Withdrawn { person: person.clone(), place: place.clone(), at, number });
        Withdrawing { forgotten: self, number }
    }

    /// The current position in the order of requests; take it before memory is read.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(self.0.lock().count, Instant::now())
    }

    /// Locks the record during a save. The lock is not reentrant.
    #[must_use]
    pub fn saving(&self) -> Saving<'_> {
        Saving(self.0.lock())
    }
}

/// The removal of a deleted question from the store.
#[must_use]
pub(crate) struct Withdrawing<'a> {
    forgotten: &'a Forgotten,
    /// The number of its begin.
    number: u64,
}

impl Drop for Withdrawing<'_> {
    fn drop(&mut self) {
        let mut wishes = self.forgotten.0.lock();
        let Some(place) = wishes.withdrawing.iter().position(|question| question.number == self.number) else { return };
        let question = wishes.withdrawing.swap_remove(place);
        wishes.count += 1;
        let number = wishes.count;
        if wishes.withdrawn.len() >= DELETIONS_MAX {
            wishes.withdrawn.pop_front();
        }
        wishes.withdrawn.push_back(Withdrawn { number, ..question });
    }
}

impl Saving<'_> {
    /// True if nothing of this turn may be kept: its person asked to be forgotten after the question, or deleted it.
    #[must_use]
    pub fn covers(&self, turn: &Turn) -> bool {
        let question = Question { person: &turn.person, place: &turn.place, at: turn.at };
        self.covers_question(&turn.id.trigger(), question)
    }

    /// True if nothing of the question in this message may be kept, like [`Self::covers`].
    #[must_use]
    pub(crate) fn covers_question(&self, message: &MessageId, question: Question<'_>) -> bool {
        let Question { person, place, at } = question;
        self.0.deleted.contains(message) || self.wishes(person, place).any(|wish| at <= wish.cut)
    }

    /// True if nothing from this person's question at that time may be kept: they asked to be forgotten later.
    #[must_use]
    pub fn covers_person(&self, person: &Person, asked: Timestamp) -> bool {
        self.0.known.get(&(person.clone(), None)).is_some_and(|wish| asked <= wish.cut)
    }

    /// Removes the data to forget from text that was read for this person's conversation in this place at `read`.
    pub(crate) fn clean(&self, person: &Person, place: &Place, read: Moment, kept: &mut impl Forgetting) {
        if self.is_unchanged(read) || Defect::WrittenBack.is_planted() {
            return;
        }
        let later = |wish: &Wish| wish.number > read.0;
        if let Some(cut) = self.wishes(person, place).filter(later).map(|wish| wish.cut).max() {
            kept.forget_until(cut);
        }
        let others: BTreeSet<Person> =
            kept.others().into_iter().map(|id| Person::new(person.door.clone(), id)).collect();
        for other in others {
            if let Some(wish) = self.0.known.get(&(other.clone(), None)).copied().filter(later) {
                kept.forget_asked_by(&other, wish.cut);
            }
        }
        for question in self.withdrawn(place, read) {
            let other = (question.person != *person).then_some(&question.person);
            kept.forget_asked_at(other, question.at);
        }
    }

    /// True if nothing was to be forgotten since `read`.
    fn is_unchanged(&self, read: Moment) -> bool {
        self.0.count <= read.0 && self.0.withdrawing.is_empty()
    }

    /// The questions in this place whose removal had not ended at `read`.
    fn withdrawn<'a>(&'a self, place: &'a Place, read: Moment) -> impl Iterator<Item = &'a Withdrawn> {
        let later = self.0.withdrawn.iter().rev().take_while(move |question| question.number > read.0);
        self.0.withdrawing.iter().chain(later).filter(move |question| question.place == *place)
    }

    fn wishes(&self, person: &Person, place: &Place) -> impl Iterator<Item = Wish> {
        let wide = self.0.known.get(&(person.clone(), None)).copied();
        let here = self.0.known.get(&(person.clone(), Some(place.clone()))).copied();
        wide.into_iter().chain(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BEGINNING, place, turn};
    use domain::history::History;
    use domain::turn::Exchange;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(BEGINNING.0 + seconds * 1_000)
    }

    fn exchange(person: &Person, asked: &str, asked_at: Timestamp) -> Exchange {
        let asked = asked.to_owned();
        Exchange { person: person.clone(), asked, asked_at, answered: "aye".to_owned(), answered_at: asked_at }
    }

    #[tokio::test]
    async fn what_was_read_before_the_wish_is_cleaned_when_it_is_saved() {
        let forgotten = Forgotten::default();
        let turn = Turn { at: at(20), ..turn("9", "7", "42") };
        let mut history = History::default();
        history.add(&exchange(&turn.person, "old", at(1)), 20);
        history.add(&exchange(&turn.person, "young", at(15)), 20);
        let read = forgotten.now();
        forgotten.wish(&turn.person, None, at(10));
        let mut saved = history.clone();
        forgotten.saving().clean(&turn.person, &turn.place, read, &mut saved);
        assert_eq!(saved.entries().len(), 2);
        let (mut later, read) = (history.clone(), forgotten.now());
        forgotten.saving().clean(&turn.person, &turn.place, read, &mut later);
        assert_eq!(later, history, "it was read after the wish and is merged on purpose");
    }

    #[test]
    fn new_conversations_of_one_member_evict_no_request_of_another_about_all_data() {
        let forgotten = Forgotten::default();
        let (ada, eve) = (Person::new(crate::testing::DOOR, "7"), Person::new(crate::testing::DOOR, "8"));
        forgotten.wish(&ada, None, BEGINNING);
        for number in 0..=WISHES_MAX {
            forgotten.wish(&eve, Some(&place(&number.to_string())), BEGINNING);
        }
        let wishes = forgotten.0.lock();
        assert_eq!(wishes.known.len(), WISHES_MAX);
        assert!(wishes.known.contains_key(&(ada, None)));
        assert!(!wishes.known.contains_key(&(eve, Some(place("0")))));
    }

    #[test]
    fn a_question_from_before_the_wish_is_covered_there_alone() {
        let forgotten = Forgotten::default();
        let turn = turn("9", "7", "42");
        forgotten.wish(&turn.person, Some(&turn.place), turn.at);
        assert!(forgotten.saving().covers(&turn));
        assert!(!forgotten.saving().covers(&Turn { place: place("43"), ..turn.clone() }));
        assert!(!forgotten.saving().covers(&Turn { at: Timestamp(turn.at.0 + 1), ..turn }));
    }

    #[test]
    fn an_earlier_request_that_is_repeated_replaces_no_later_one() {
        let forgotten = Forgotten::default();
        let turn = Turn { at: at(15), ..turn("9", "7", "42") };
        forgotten.wish(&turn.person, None, at(20));
        forgotten.wish(&turn.person, None, at(10));
        assert!(forgotten.saving().covers(&turn));
        assert_eq!(forgotten.cut(&turn.person, None), Some(at(20)));
    }

    #[tokio::test]
    async fn a_request_that_an_earlier_process_stored_covers_a_resumed_question() {
        let running = crate::testing::running(&[], std::sync::Arc::new(ports::testing::ScriptedModels::new(&["main"])));
        let store = ports::testing::MemoryStore::new();
        let (forgotten, resumed) = (Forgotten::default(), Turn { at: at(15), ..turn("9", "7", "42") });
        let Turn { person, place, .. } = &resumed;
        let wished = Wished {
            person: person.clone(),
            place: Some(place.clone()),
            cut: at(20),
            noted: at(20),
            unfinished: false,
        };
        assert!(store.write(vec![wished.record(&running)]).await);
        let question = |at| Question { person, place, at };
        forgotten.take_up(&store, at(30), question(at(25))).await;
        assert!(!forgotten.saving().covers(&resumed), "a later question needs no request");
        forgotten.take_up(&store, at(30), question(at(15))).await;
        assert!(forgotten.saving().covers(&resumed));
    }

    #[tokio::test]
    async fn words_in_the_histories_of_others_are_cleaned_too() {
        let forgotten = Forgotten::default();
        let (mine, other) = (turn("9", "7", "42"), turn("8", "70", "42"));
        let mut history = History::default();
        history.merge(&exchange(&other.person, "theirs", at(1)), &mine.person, 20);
        history.add(&exchange(&mine.person, "mine", at(2)), 20);
        let read = forgotten.now();
        forgotten.wish(&other.person, None, at(5));
        forgotten.saving().clean(&mine.person, &mine.place, read, &mut history);
        assert_eq!(history.entries().iter().map(|entry| &*entry.content).collect::<Vec<_>>(), ["mine", "aye"]);
    }

    #[test]
    fn wishes_are_bounded() {
        let forgotten = Forgotten::default();
        let person = |number: usize| Person::new(crate::testing::DOOR, number.to_string());
        for number in 0..=WISHES_MAX {
            forgotten.wish(&person(number), None, at(1));
            forgotten.wish(&person(number), None, at(1));
        }
        let wishes = forgotten.0.lock();
        assert_eq!((wishes.known.len(), wishes.order.len()), (WISHES_MAX, WISHES_MAX));
    }
}
