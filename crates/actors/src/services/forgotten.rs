//! What members asked to be forgotten, for as long as something of it may still be on its way into memory.
//!
//! A turn that is being answered holds what it recalled, and saves it when it ends. Whoever saves holds this record meanwhile,
//! and leaves out what was to be forgotten; whoever forgets notes it here first and deletes then. So nothing comes back.
//!
//! Other processes on the same store learn of a wish from a record there ([`Wished`]): a turn reads it when it saves, while its answer
//! is on its way, and takes out again what was to be forgotten. A wish that comes in the very moment of that read can still be
//! missed, so the process that forgot cleans again once no turn from before can be left (`commands/cleaning.rs`).

use std::collections::{HashMap, VecDeque};

use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::services::running::Running;
use domain::history::History;
use domain::ids::{self, Person, Place, Timestamp};
use domain::keys;
use domain::turn::Turn;
use ports::{Store, Write};

/// The most wishes remembered, the oldest forgotten first. Each matters for as long as a turn may take.
const WISHES_MAX: usize = 10_000;

/// The record of wishes. All of it is lost with the process, and so is every turn that was on its way.
#[derive(Default)]
pub struct Forgotten(Mutex<Wishes>);

/// The record, held: nobody forgets or saves meanwhile.
pub struct Saving<'a>(MutexGuard<'a, Wishes>);

/// A place in the order of wishes, and when that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(u64, Instant);

/// How long after the last deadline of a turn something of it may still be written.
const GRACE: Duration = Duration::from_secs(60);
/// How far the clocks of two processes may differ for a wish to count as later than what a turn read.
const SKEW: Duration = Duration::from_secs(2);

/// A wish as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wished {
    /// Whose.
    pub person: Person,
    /// The place of the one conversation; none means everything.
    pub place: Option<Place>,
    /// Everything up to then is to be forgotten.
    pub cut: Timestamp,
    /// When it was noted.
    pub noted: Timestamp,
}

impl Wished {
    /// The record, which lives for some time longer than any turn that may hold what it is about.
    pub(crate) fn record(&self, running: &Running) -> Write {
        let key = keys::forgotten(&self.person, self.place.as_ref());
        let ttl = Some(Self::holds_for(running) * 2);
        // Plain data with string keys always serialises.
        Write::Put { key, value: serde_json::to_string(self).unwrap_or_default(), ttl }
    }

    /// How long after it was noted a turn from before may still save something.
    pub(crate) fn holds_for(running: &Running) -> Duration {
        running.settings.turn.lease() + GRACE
    }
}

/// Whether the store says that nothing may be kept of what this person asked then.
pub(crate) async fn is_forgotten(store: &dyn Store, person: &Person, asked: Timestamp) -> bool {
    let stored = store.get(&keys::forgotten(person, None)).await;
    let wished = stored.and_then(|stored| serde_json::from_str::<Wished>(&stored).ok());
    wished.is_some_and(|wished| asked <= wished.cut)
}

/// What the store says that a turn may not save.
pub(crate) struct StoredWishes {
    /// Nothing may be kept of what was asked.
    pub covers: bool,
    own: Vec<Wished>,
    others: Vec<Wished>,
}

impl StoredWishes {
    /// Reads the wishes that concern what a person asked in a place at a moment, and the history that was read for it at `read`, in which
    /// stand words of others.
    pub(crate) async fn of(
        store: &dyn Store,
        now: Timestamp,
        (person, place, at): (&Person, &Place, Timestamp),
        (others, read): (&[Person], Moment),
    ) -> Self {
        let read_at = Timestamp(now.0.saturating_sub(ids::millis(read.1.elapsed() + SKEW)));
        let get = |key: String| async move {
            let stored = store.get(&key).await?;
            serde_json::from_str::<Wished>(&stored).ok()
        };
        let others = join_all(others.iter().map(|person| get(keys::forgotten(person, None))));
        let own = [None, Some(place)].map(|place| get(keys::forgotten(person, place)));
        let (own, others) = tokio::join!(join_all(own), others);
        let later = |wish: &Wished| wish.noted >= read_at;
        let own: Vec<Wished> = own.into_iter().flatten().collect();
        Self {
            covers: own.iter().any(|wish| at <= wish.cut),
            own: own.into_iter().filter(later).collect(),
            others: others.into_iter().flatten().filter(later).collect(),
        }
    }

    /// The wishes that came after the history was read.
    pub(crate) fn later(&self) -> impl Iterator<Item = &Wished> {
        self.own.iter().chain(&self.others)
    }

    /// Takes out what is to be forgotten.
    pub(crate) fn clean(&self, history: &mut History) {
        if let Some(cut) = self.own.iter().map(|wish| wish.cut).max() {
            history.forget_until(cut);
        }
        for wish in &self.others {
            history.forget_asked_by(&wish.person, wish.cut);
        }
    }
}

#[derive(Default)]
struct Wishes {
    known: HashMap<(Person, Option<Place>), Wish>,
    order: VecDeque<(Person, Option<Place>)>,
    count: u64,
}

#[derive(Clone, Copy)]
struct Wish {
    /// Everything up to then is to be forgotten.
    cut: Timestamp,
    /// What was read before this moment may hold some of it.
    number: u64,
}

impl Forgotten {
    /// Everything about this person, or only the conversation in one place, up to this moment is to be forgotten. To be said
    /// before anything is deleted, and again after it: what is read in between may be the old state.
    pub fn wish(&self, person: &Person, place: Option<&Place>, cut: Timestamp) {
        let mut wishes = self.0.lock();
        wishes.count += 1;
        let number = wishes.count;
        let key = (person.clone(), place.cloned());
        if wishes.known.insert(key.clone(), Wish { cut, number }).is_none() {
            wishes.order.push_back(key);
        }
        if wishes.order.len() > WISHES_MAX
            && let Some(oldest) = wishes.order.pop_front()
        {
            wishes.known.remove(&oldest);
        }
    }

    /// The present moment in the order of wishes; to be taken before memory is read.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(self.0.lock().count, Instant::now())
    }

    /// Holds the record while something is saved. Nobody else gets at it meanwhile, whoever holds it included.
    #[must_use]
    pub fn saving(&self) -> Saving<'_> {
        Saving(self.0.lock())
    }
}

impl Saving<'_> {
    /// Nothing may be kept of this turn: it was asked before its person wished to be forgotten.
    #[must_use]
    pub fn covers(&self, turn: &Turn) -> bool {
        self.wishes(&turn.person, &turn.place).any(|wish| turn.at <= wish.cut)
    }

    /// Nothing may be kept of what this person asked then: they wished everything to be forgotten later.
    #[must_use]
    pub fn covers_person(&self, person: &Person, asked: Timestamp) -> bool {
        self.0.known.get(&(person.clone(), None)).is_some_and(|wish| asked <= wish.cut)
    }

    /// Takes out of a history, read for this turn at `read`, what is to be forgotten.
    pub fn clean(&self, turn: &Turn, read: Moment, history: &mut History) {
        if self.0.count <= read.0 {
            return;
        }
        let later = |wish: &Wish| wish.number > read.0;
        if let Some(cut) = self.wishes(&turn.person, &turn.place).filter(later).map(|wish| wish.cut).max() {
            history.forget_until(cut);
        }
        let others: Vec<Person> = history.others().map(|id| Person::new(turn.person.door.clone(), id)).collect();
        for person in others {
            if let Some(wish) = self.0.known.get(&(person.clone(), None)).copied().filter(later) {
                history.forget_asked_by(&person, wish.cut);
            }
        }
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
        forgotten.saving().clean(&turn, read, &mut saved);
        assert_eq!(saved.entries().len(), 2);
        let (mut later, read) = (history.clone(), forgotten.now());
        forgotten.saving().clean(&turn, read, &mut later);
        assert_eq!(later, history, "it was read after the wish and is merged on purpose");
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

    #[tokio::test]
    async fn words_in_the_histories_of_others_are_cleaned_too() {
        let forgotten = Forgotten::default();
        let (mine, other) = (turn("9", "7", "42"), turn("8", "70", "42"));
        let mut history = History::default();
        history.merge(&exchange(&other.person, "theirs", at(1)), &mine.person, 20);
        history.add(&exchange(&mine.person, "mine", at(2)), 20);
        let read = forgotten.now();
        forgotten.wish(&other.person, None, at(5));
        forgotten.saving().clean(&mine, read, &mut history);
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
