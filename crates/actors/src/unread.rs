//! The places that a catch-up could not read, at any door. Each is tried again by itself with growing pauses, so that it
//! delays no other place, and its gap is stored until it is read or too old to answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::services::basics::Basics;
use domain::ids::{Door, Place, Timestamp, millis};
use domain::keys;
use domain::restart::Backoff;

/// The pauses between the tries of one place: half of each is fixed.
pub(crate) const AGAIN: Backoff = Backoff { base: Duration::from_secs(10), cap: Duration::from_secs(15 * 60) };

/// The stored form: for each id of a place the time of its first unread message, and the time before which all are.
pub(crate) type StoredGaps = BTreeMap<String, (u64, u64)>;

/// The places with unread messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unread(BTreeMap<Place, Gap>);

/// The unread messages of one place.
#[derive(Debug, PartialEq, Eq)]
struct Gap {
    /// The time of the first one.
    since: Timestamp,
    /// The time before which all are.
    until: Timestamp,
    /// The number of failed tries.
    tries: u32,
    /// The time of the next try.
    next: Timestamp,
}

impl Unread {
    /// Reads the stored places of a door. Each is due at once. Content of another form has none.
    pub(crate) fn parse(door: &Door, text: &str) -> Self {
        Self::from_stored(door, serde_json::from_str(text).unwrap_or_default())
    }

    /// Returns the form that is stored; `None` without a place.
    pub(crate) fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(&self.stored()).unwrap_or_default())
    }

    /// Creates the places of a door from their stored form. Each is due at once.
    pub(crate) fn from_stored(door: &Door, stored: StoredGaps) -> Self {
        let gap = |(id, (since, until)): (String, (u64, u64))| {
            let (since, until) = (Timestamp(since), Timestamp(until));
            (Place::new(door.clone(), id), Gap { since, until, tries: 0, next: since })
        };
        Self(stored.into_iter().map(gap).collect())
    }

    /// Returns the stored form.
    pub(crate) fn stored(&self) -> StoredGaps {
        self.0.iter().map(|(place, gap)| (place.id.to_string(), (gap.since.0, gap.until.0))).collect()
    }

    /// Returns the number of places.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the time before which all unread messages of a place are; `None` if the place has none.
    pub(crate) fn until(&self, place: &Place) -> Option<Timestamp> {
        self.0.get(place).map(|gap| gap.until)
    }

    /// Adds the messages of a place from `since` to before `until`, which could not be read now.
    pub(crate) fn failed(&mut self, place: Place, since: Timestamp, until: Timestamp, now: Timestamp, roll: f64) {
        let gap = self.0.entry(place).or_insert(Gap { since, until, tries: 0, next: now });
        gap.since = gap.since.min(since);
        gap.until = gap.until.max(until);
        gap.next = Timestamp(now.0.saturating_add(millis(pause(gap.tries, roll))));
        gap.tries = gap.tries.saturating_add(1);
    }

    /// Adds another failed try of a place.
    pub(crate) fn failed_again(&mut self, place: &Place, now: Timestamp, roll: f64) {
        if let Some(Gap { since, until, .. }) = self.0.get(place) {
            self.failed(place.clone(), *since, *until, now, roll);
        }
    }

    /// Removes a place that was read.
    pub(crate) fn read(&mut self, place: &Place) {
        self.0.remove(place);
    }

    /// Removes the places whose messages are all older than `oldest`; returns their number.
    pub(crate) fn expire(&mut self, oldest: Timestamp) -> usize {
        let before = self.0.len();
        self.0.retain(|_, gap| gap.until > oldest);
        before - self.0.len()
    }

    /// Returns the places that are due, each with the time of its first message to read.
    pub(crate) fn due(&self, now: Timestamp, oldest: Timestamp) -> Vec<(Place, Timestamp)> {
        let due = self.0.iter().filter(|(_, gap)| gap.next <= now);
        due.map(|(place, gap)| (place.clone(), gap.since.max(oldest))).collect()
    }
}

/// Returns the time before which messages are too old to be answered.
pub(crate) fn oldest(basics: &Basics) -> Timestamp {
    let age = basics.live.now().settings.catch_up.age.min(keys::CATCH_UP_AGE_MAX);
    Timestamp(basics.clock.now().0.saturating_sub(millis(age)))
}

/// Returns the pause after this number of earlier failed tries.
pub(crate) fn pause(tries: u32, roll: f64) -> Duration {
    AGAIN.bound(tries) / 2 + AGAIN.delay(tries, roll) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOOR: Door = Door::new("test");

    #[test]
    fn a_place_is_due_after_growing_pauses_and_kept_in_the_store() {
        let (mut unread, place) = (Unread::default(), Place::new(DOOR, "C1"));
        assert_eq!(unread.text(), None);
        let mut now = Timestamp(1_000_000);
        let mut pauses = Vec::new();
        unread.failed(place.clone(), Timestamp(500), Timestamp(900), now, 1.0);
        for _ in 0..4 {
            let mut waited = 0;
            while unread.due(now, Timestamp(0)).is_empty() {
                now = Timestamp(now.0 + 1_000);
                waited += 1;
            }
            pauses.push(waited);
            unread.failed_again(&place, now, 1.0);
        }
        assert_eq!(pauses, [10, 20, 40, 80]);
        let stored = Unread::parse(&DOOR, &unread.text().unwrap());
        assert_eq!(stored.due(now, Timestamp(0)), [(place.clone(), Timestamp(500))]);
        assert_eq!(stored.due(now, Timestamp(700)), [(place.clone(), Timestamp(700))]);
        assert_eq!((unread.expire(Timestamp(899)), unread.expire(Timestamp(900))), (0, 1));
        assert_eq!(Unread::parse(&DOOR, "odd"), Unread::default());
    }

    #[test]
    fn a_second_gap_of_a_place_extends_the_first() {
        let (mut unread, place, now) = (Unread::default(), Place::new(DOOR, "C1"), Timestamp(9_000));
        unread.failed(place.clone(), Timestamp(500), Timestamp(900), now, 0.0);
        unread.failed(place.clone(), Timestamp(700), Timestamp(2_000), now, 0.0);
        assert_eq!(unread.text().as_deref(), Some(r#"{"C1":[500,2000]}"#));
        unread.read(&place);
        assert_eq!(unread.text(), None);
    }
}
