//! Limits busy notices to one per person and period. All actors that reject questions share it. It outlives the actors,
//! so a crash does not repeat the notices.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::ids::Person;

/// The minimum time between two busy notices to one person.
pub const BUSY_NOTICE_EVERY: Duration = Duration::from_secs(60);
/// The maximum number of persons in the record. If it is full, no further notices are sent; rejections are still
/// counted.
pub const BUSY_NOTICES_MAX: usize = 10_000;

/// The persons with a recent notice.
#[derive(Default)]
pub struct Busy(Mutex<HashMap<Person, Instant>>);

impl Busy {
    /// True if this person can get a notice now; it is then recorded as sent.
    #[must_use]
    pub fn may_tell(&self, person: &Person) -> bool {
        let now = Instant::now();
        let recent = |at: &Instant| now.duration_since(*at) < BUSY_NOTICE_EVERY;
        let mut told = self.0.lock();
        if told.len() >= BUSY_NOTICES_MAX {
            told.retain(|_, at| recent(at));
        }
        if told.get(person).is_some_and(recent) || told.len() >= BUSY_NOTICES_MAX {
            return false;
        }
        told.insert(person.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::person;

    #[tokio::test(start_paused = true)]
    async fn a_person_is_told_once_a_minute() {
        let busy = Busy::default();
        assert!(busy.may_tell(&person("7")) && busy.may_tell(&person("8")));
        assert!(!busy.may_tell(&person("7")));
        tokio::time::sleep(BUSY_NOTICE_EVERY).await;
        assert!(busy.may_tell(&person("7")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let busy = Busy::default();
        for number in 0..BUSY_NOTICES_MAX {
            assert!(busy.may_tell(&person(&number.to_string())));
        }
        assert!(!busy.may_tell(&person("new")));
        assert_eq!(busy.0.lock().len(), BUSY_NOTICES_MAX);
    }
}
