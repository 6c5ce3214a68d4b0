//! Places that are gone or forbidden. Callers check here before they request an answer from a model. The object
//! survives restarts of the actors; each entry expires after some seconds.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::ids::{Person, Place};

/// The most places remembered. Further ones count as open, and the platform rejects their posts.
const PLACES_MAX: usize = 10_000;
/// The most members with a queued notice remembered per place; further ones get no notice.
const PERSONS_MAX: usize = 1_000;

/// The time after the end of a closure at which a new closure starts fresh, with new notices.
const ANEW_AFTER: Duration = Duration::from_secs(60);

/// The closed places.
#[derive(Default)]
pub struct ClosedPlaces(Mutex<HashMap<Place, Closed>>);

struct Closed {
    until: Instant,
    /// The members with a queued notice, until the place is open again.
    noticed: HashSet<Person>,
}

/// The state of access to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceAccess {
    /// The place is open, as far as is known.
    Open,
    /// The place is closed. This member gets a notice once it is open.
    Notice,
    /// The place is closed, and a notice for this member is already queued.
    Silent,
}

impl ClosedPlaces {
    /// Returns the access to a place for a member who asked, or, without a member, for a general post. A returned
    /// [`PlaceAccess::Notice`] counts as queued from then on.
    pub fn access(&self, place: &Place, person: Option<&Person>) -> PlaceAccess {
        let mut places = self.0.lock();
        let Some(closed) = places.get_mut(place).filter(|closed| closed.until > Instant::now()) else {
            return PlaceAccess::Open;
        };
        let room = closed.noticed.len() < PERSONS_MAX;
        let first = person.is_some_and(|person| room && closed.noticed.insert(person.clone()));
        if first { PlaceAccess::Notice } else { PlaceAccess::Silent }
    }

    /// Closes a place until this time; nothing is posted there meanwhile.
    pub(super) fn close(&self, place: &Place, until: Instant) {
        let mut places = self.0.lock();
        if places.len() >= PLACES_MAX {
            let now = Instant::now();
            places.retain(|_, closed| closed.until > now);
        }
        if let Some(closed) = places.get_mut(place) {
            if closed.until + ANEW_AFTER <= Instant::now() {
                closed.noticed.clear();
            }
            closed.until = until;
        } else if places.len() < PLACES_MAX {
            places.insert(place.clone(), Closed { until, noticed: HashSet::new() });
        }
    }

    /// Opens a place, or removes its state.
    pub(super) fn open(&self, place: &Place) {
        self.0.lock().remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{person, place};

    #[tokio::test(start_paused = true)]
    async fn a_closed_place_has_one_notice_for_each_person_until_it_opens() {
        let closed = ClosedPlaces::default();
        let (here, ada, ben) = (place("1"), person("7"), person("8"));
        assert_eq!(closed.access(&here, Some(&ada)), PlaceAccess::Open);
        let close = || closed.close(&here, Instant::now() + Duration::from_secs(5));
        close();
        assert_eq!(closed.access(&here, Some(&ada)), PlaceAccess::Notice);
        assert_eq!(
            (closed.access(&here, Some(&ada)), closed.access(&here, Some(&ben))),
            (PlaceAccess::Silent, PlaceAccess::Notice)
        );
        assert_eq!(closed.access(&place("2"), Some(&ada)), PlaceAccess::Open);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(closed.access(&here, Some(&ada)), PlaceAccess::Open, "the next answer probes");
        close();
        assert_eq!(closed.access(&here, Some(&ada)), PlaceAccess::Silent, "closed again");
        closed.open(&here);
        close();
        assert_eq!(closed.access(&here, Some(&ada)), PlaceAccess::Notice);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let closed = ClosedPlaces::default();
        let until = Instant::now() + Duration::from_secs(5);
        for number in 0..PLACES_MAX + 5 {
            closed.close(&place(&number.to_string()), until);
        }
        assert_eq!(closed.0.lock().len(), PLACES_MAX);
        for number in 0..PERSONS_MAX {
            assert_eq!(closed.access(&place("1"), Some(&person(&number.to_string()))), PlaceAccess::Notice);
        }
        assert_eq!(closed.access(&place("1"), Some(&person("new"))), PlaceAccess::Silent);
        tokio::time::sleep(Duration::from_secs(5)).await;
        closed.close(&place("new"), until + Duration::from_secs(5));
        assert_eq!(closed.0.lock().len(), 1);
    }
}
