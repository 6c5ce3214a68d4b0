//! Permits that no single holder, such as a person, can exhaust.
//!
//! - [`domain::fair_share`] has the rule: one person holds at most half of the permits.
//! - Work of the bot itself has no person and takes any free permit.
//! - Permits outlive the actor that grants them: a crash neither loses nor doubles one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use domain::fair_share::Weight;
use domain::ids::Person;

/// The permits and their holders. Clones are the same permits.
#[derive(Clone)]
pub struct Shares<K: Eq + Hash = Person>(Arc<Inner<K>>);

struct Inner<K> {
    permits: Arc<Semaphore>,
    weight: Weight,
    /// The number of permits of each holder of at least one; bounded by the permits.
    held: Mutex<HashMap<K, usize>>,
    /// Notified when a permit was returned.
    returned: watch::Sender<()>,
}

/// Permits of one holder. Dropping it returns them.
pub struct Share<K: Eq + Hash = Person> {
    permit: Option<OwnedSemaphorePermit>,
    holder: Option<K>,
    many: usize,
    of: Arc<Inner<K>>,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Creates shares of these permits, of which one holder has at most half.
    #[must_use]
    pub fn new(permits: Arc<Semaphore>) -> Self {
        Self::weighted(permits, Weight::EVEN)
    }

    /// Creates shares of these permits, of which one holder has as many as its weight admits.
    #[must_use]
    pub fn weighted(permits: Arc<Semaphore>, weight: Weight) -> Self {
        Self(Arc::new(Inner { permits, weight, held: Mutex::default(), returned: watch::Sender::new(()) }))
    }

    /// Returns the number of free permits.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.permits.available_permits()
    }

    /// True if this holder may have a further permit now.
    #[must_use]
    pub fn admits(&self, holder: &K) -> bool {
        self.admits_many(holder, 1)
    }

    /// True if this holder may have `many` further permits together now.
    fn admits_many(&self, holder: &K, many: usize) -> bool {
        let held = self.0.held.lock().get(holder).copied().unwrap_or_default();
        self.0.weight.admits(held, many, self.free())
    }

    /// Takes a permit; none if no permit is free for this holder.
    #[must_use]
    pub fn take(&self, holder: Option<&K>) -> Option<Share<K>> {
        self.take_many(holder, 1)
    }

    /// Takes `many` permits together, such as one for each KiB; none if they are not free for this holder.
    #[must_use]
    pub fn take_many(&self, holder: Option<&K>, many: usize) -> Option<Share<K>> {
        if holder.is_some_and(|holder| !self.admits_many(holder, many)) {
            return None;
        }
        let permit = Arc::clone(&self.0.permits).try_acquire_many_owned(u32::try_from(many).ok()?).ok()?;
        if let Some(holder) = holder {
            *self.0.held.lock().entry(holder.clone()).or_default() += many;
        }
        Some(Share { permit: Some(permit), holder: holder.cloned(), many, of: Arc::clone(&self.0) })
    }

    /// Waits until a permit is free for this holder. Those who wait are served in no order, so the caller sets a
    /// deadline.
    pub async fn wait(&self, holder: Option<&K>) -> Share<K> {
        self.wait_many(holder, 1).await
    }

    /// Like [`Self::wait`], for several permits together.
    pub async fn wait_many(&self, holder: Option<&K>, many: usize) -> Share<K> {
        let mut returned = self.returned();
        loop {
            if let Some(share) = self.take_many(holder, many) {
                return share;
            }
            // The sender lives as long as these permits.
            let _ = returned.changed().await;
        }
    }

    /// Returns a receiver that changes with each permit returned from now on.
    #[must_use]
    pub fn returned(&self) -> watch::Receiver<()> {
        self.0.returned.subscribe()
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        if let Some(holder) = &self.holder {
            let mut held = self.of.held.lock();
            if let Some(many) = held.get_mut(holder) {
                *many = many.saturating_sub(self.many);
                if *many == 0 {
                    held.remove(holder);
                }
            }
        }
        drop(self.permit.take());
        self.of.returned.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::Door;

    use super::*;

    fn person(id: &str) -> Person {
        Person::new(Door::new("d"), id)
    }

    #[test]
    fn each_further_person_finds_a_free_permit() {
        let shares = Shares::new(Arc::new(Semaphore::new(12)));
        let mut held = Vec::new();
        let mut counts = Vec::new();
        for name in ["1", "2", "3", "4"] {
            let before = held.len();
            while let Some(share) = shares.take(Some(&person(name))) {
                held.push(share);
            }
            counts.push(held.len() - before);
        }
        assert_eq!(counts, [6, 3, 2, 1]);
        assert_eq!(shares.free(), 0);
        assert!(shares.take(None).is_none());
        drop(held);
        assert!(shares.free() == 12 && shares.0.held.lock().is_empty());
    }

    #[test]
    fn one_permit_is_for_each_person_in_turn() {
        let shares = Shares::new(Arc::new(Semaphore::new(1)));
        let first = shares.take(Some(&person("1")));
        assert!(first.is_some() && shares.take(Some(&person("2"))).is_none());
        drop(first);
        assert!(shares.take(Some(&person("2"))).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn many_permits_at_once_leave_as_many_as_a_person_holds_and_delay_no_smaller_request() {
        let shares = Shares::new(Arc::new(Semaphore::new(32)));
        let (one, other, third) = (person("1"), person("2"), person("3"));
        let held = [shares.take_many(Some(&one), 7), shares.take_many(Some(&one), 7)];
        assert!(held.iter().all(Option::is_some) && shares.take_many(Some(&one), 7).is_none());
        let second = shares.take_many(Some(&other), 7);
        assert!(second.is_some() && shares.take_many(Some(&other), 7).is_none());
        let mut large = Box::pin(shares.wait_many(Some(&other), 7));
        assert!(futures_util::poll!(&mut large).is_pending());
        assert!(shares.take_many(Some(&third), 1).is_some(), "a small request passes a large one");
        drop((held, second));
        assert!(futures_util::poll!(&mut large).is_ready());
        drop(large);
        assert!(shares.free() == 32 && shares.0.held.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_beyond_the_share_waits_for_a_permit_while_others_get_theirs() {
        let shares = Shares::new(Arc::new(Semaphore::new(2)));
        let (one, other) = (person("1"), person("2"));
        let first = shares.wait(Some(&one)).await;
        let mut second = Box::pin(shares.wait(Some(&one)));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(shares.wait(Some(&other)).await);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut second).is_ready());
    }
}
