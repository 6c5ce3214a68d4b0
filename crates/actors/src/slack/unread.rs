//! The places that a catch-up could not read. Each is tried again by itself with growing pauses, so that it delays no
//! other place, and its gap is stored until it is read or too old to answer.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ids::{Door, Place, Timestamp, millis};
use domain::restart::Backoff;

/// The pauses between the tries of one place: half of each is fixed.
pub(super) const AGAIN: Backoff = Backoff { base: Duration::from_secs(10), cap: Duration::from_secs(15 * 60) };

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
    pub(super) fn parse(door: &Door, text: &str) -> Self {
        let stored: BTreeMap<String, (u64, u64)> = serde_json::from_str(text).unwrap_or_default();
        let gap = |(id, (since, until)): (String, (u64, u64))| {
            let (since, until) = (Timestamp(since), Timestamp(until));
            (Place::new(door.clone(), id), Gap { since, until, tries: 0, next: since })
        };
        Self(stored.into_iter().map(gap).collect())
    }

    /// Returns the form that is stored; `None` without a place.
    pub(super) fn text(&self) -> Option<String> {
        let stored: BTreeMap<&str, (u64, u64)> =
            self.0.iter().map(|(place, gap)| (place.id.as_str(), (gap.since.0, gap.until.0))).collect();
        (!stored.is_empty()).then(|| serde_json::to_string(&stored).unwrap_or_default())
    }

    /// Adds the messages of a place from `since` to before `until`, which could not be read now.
    pub(super) fn failed(&mut self, place: Place, since: Timestamp, until: Timestamp, now: Timestamp, roll: f64) {
        let gap = self.0.entry(place).or_insert(Gap { since, until, tries: 0, next: now });
        gap.since = gap.since.min(since);
        gap.until = gap.until.max(until);
        gap.next = Timestamp(now.0.saturating_add(millis(pause(gap.tries, roll))));
        gap.tries = gap.tries.saturating_add(1);
    }

    /// Adds another failed try of a place.
    pub(super) fn failed_again(&mut self, place: &Place, now: Timestamp, roll: f64) {
        if let Some(Gap { since, until, .. }) = self.0.get(place) {
            self.failed(place.clone(), *since, *until, now, roll);
        }
    }

    /// Removes a place that was read.
    pub(super) fn read(&mut self, place: &Place) {
        self.0.remove(place);
    }

    /// Removes the places whose messages are all older than `oldest`; returns their number.
    pub(super) fn expire(&mut self, oldest: Timestamp) -> usize {
        let before = self.0.len();
        self.0.retain(|_, gap| gap.until > oldest);
        before - self.0.len()
    }

    /// Returns the places that are due, each with the time of its first message to read.
    pub(super) fn due(&self, now: Timestamp, oldest: Timestamp) -> Vec<(Place, Timestamp)> {
        let due = self.0.iter().filter(|(_, gap)| gap.next <= now);
        due.map(|(place, gap)| (place.clone(), gap.since.max(oldest))).collect()
    }
}

/// Returns the pause after this number of earlier failed tries.
pub(super) fn pause(tries: u32, roll: f64) -> Duration {
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
