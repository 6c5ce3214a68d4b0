//! Permits that no single holder, such as a person, can exhaust.
//!
//! - [`domain::fair_share`] has the rule: one person holds at most half of the permits.
//! - Requests that wait are served in a fair order ([`domain::fair_queue`]); those of holders who were not among the last
//!   [`RECENT_MAX`] that were served come first. A small request passes a large one that does not fit.
//! - Work of the bot itself has no person and takes any free permit.
//! - Permits outlive the actor that grants them: a crash neither loses nor doubles one.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use domain::fair_queue::FairQueue;
use domain::fair_share::Weight;
use domain::ids::Person;

/// The number of holders that are remembered as served.
const RECENT_MAX: usize = 32;

/// The permits and their holders. Clones share them.
#[derive(Clone)]
pub struct Shares<K: Clone + Eq + Hash = Person>(Arc<Inner<K>>);

struct Inner<K: Clone + Eq + Hash> {
    permits: Arc<Semaphore>,
    weight: Weight,
    /// The number of permits of each holder of at least one; bounded by the permits.
    held: Mutex<HashMap<K, usize>>,
    queue: Mutex<Queue<K>>,
    /// Notified when a permit was returned.
    returned: watch::Sender<()>,
}

/// The requests that wait. Their callers bound them: each is a future of a turn, a call or a request.
struct Queue<K: Clone + Eq + Hash> {
    waiting: FairQueue<Option<K>, Waiting<K>>,
    /// The holders that were served last, the oldest first; at most [`RECENT_MAX`].
    recent: VecDeque<K>,
}

/// A request for permits. It is over if its future was dropped.
struct Waiting<K: Clone + Eq + Hash> {
    holder: Option<K>,
    many: usize,
    grant: oneshot::Sender<Share<K>>,
}

/// Permits of one holder. Dropping it returns them.
pub struct Share<K: Clone + Eq + Hash = Person> {
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
        let queue = Mutex::new(Queue { waiting: FairQueue::default(), recent: VecDeque::new() });
        Self(Arc::new(Inner { permits, weight, held: Mutex::default(), queue, returned: watch::Sender::new(()) }))
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
        self.0.admits(Some(holder), many)
    }

    /// Takes a permit; none if no permit is free for this holder.
    #[must_use]
    pub fn take(&self, holder: Option<&K>) -> Option<Share<K>> {
        self.take_many(holder, 1)
    }

    /// Takes `many` permits together, such as one for each KiB; none if they are not free for this holder.
    #[must_use]
    pub fn take_many(&self, holder: Option<&K>, many: usize) -> Option<Share<K>> {
        Inner::take(&self.0, holder, many)
    }

    /// Waits until a permit is free for this holder. The caller sets a deadline.
    pub async fn wait(&self, holder: Option<&K>) -> Share<K> {
        self.wait_many(holder, 1).await
    }

    /// Like [`Self::wait`], for several permits together.
    pub async fn wait_many(&self, holder: Option<&K>, many: usize) -> Share<K> {
        loop {
            let (grant, granted) = oneshot::channel();
            let waiting = Waiting { holder: holder.cloned(), many, grant };
            self.0.queue.lock().waiting.push(holder.cloned(), waiting);
            Inner::serve(&self.0);
            // A request leaves the queue without permits only if they were taken meanwhile; it waits again.
            if let Ok(share) = granted.await {
                return share;
            }
        }
    }

    /// Returns a receiver that changes with each permit returned from now on.
    #[must_use]
    pub fn returned(&self) -> watch::Receiver<()> {
        self.0.returned.subscribe()
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    /// True if this holder may have `many` further permits together now.
    fn admits(&self, holder: Option<&K>, many: usize) -> bool {
        let free = self.permits.available_permits();
        let Some(holder) = holder else { return many <= free };
        let held = self.held.lock().get(holder).copied().unwrap_or_default();
        self.weight.admits(held, many, free)
    }

    fn take(this: &Arc<Self>, holder: Option<&K>, many: usize) -> Option<Share<K>> {
        if holder.is_some() && !this.admits(holder, many) {
            return None;
        }
        let permit = Arc::clone(&this.permits).try_acquire_many_owned(u32::try_from(many).ok()?).ok()?;
        if let Some(holder) = holder {
            *this.held.lock().entry(holder.clone()).or_default() += many;
        }
        Some(Share { permit: Some(permit), holder: holder.cloned(), many, of: Arc::clone(this) })
    }

    /// Grants the free permits to the requests that wait.
    fn serve(this: &Arc<Self>) {
        while let Some(Waiting { holder, many, grant }) = this.next() {
            if grant.is_closed() {
                continue;
            }
            let Some(share) = Self::take(this, holder.as_ref(), many) else { continue };
            if let Some(holder) = holder {
                this.queue.lock().served(holder);
            }
            // If the request ended meanwhile, the dropped share serves the next one.
            drop(grant.send(share));
        }
    }

    /// Returns the next request that fits, or that is over.
    fn next(&self) -> Option<Waiting<K>> {
        let Queue { waiting, recent } = &mut *self.queue.lock();
        if self.permits.available_permits() == 0 {
            return waiting.pop(|_, request| request.grant.is_closed());
        }
        let fits =
            |request: &Waiting<K>| request.grant.is_closed() || self.admits(request.holder.as_ref(), request.many);
        let is_new = |holder: &Option<K>| holder.as_ref().is_some_and(|holder| !recent.contains(holder));
        let first = waiting.pop(|holder, request| is_new(holder) && fits(request));
        first.or_else(|| waiting.pop(|_, request| fits(request)))
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    fn served(&mut self, holder: K) {
        self.recent.retain(|served| *served != holder);
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(holder);
    }
}

impl<K: Clone + Eq + Hash> Share<K> {
    /// Adds permits of the same holder.
    pub fn merge(&mut self, mut other: Self) {
        let added = (std::mem::take(&mut other.many), other.permit.take());
        self.many += added.0;
        match (&mut self.permit, added.1) {
            (Some(permit), Some(other)) => permit.merge(other),
            (permit, other) => *permit = permit.take().or(other),
        }
    }

    /// Returns this many permits, at most all of them.
    pub fn give_back(&mut self, many: usize) {
        let many = many.min(self.many);
        let permit = self.permit.as_mut().and_then(|permit| permit.split(many));
        self.many -= many;
        drop(Self { permit, holder: self.holder.clone(), many, of: Arc::clone(&self.of) });
    }
}

impl<K: Clone + Eq + Hash> Drop for Share<K> {
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
        Inner::serve(&self.of);
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
    async fn permits_can_be_added_and_returned_in_parts() {
        let shares = Shares::new(Arc::new(Semaphore::new(32)));
        let one = person("1");
        let mut share = shares.take_many(Some(&one), 6).unwrap();
        share.merge(shares.take_many(Some(&one), 7).unwrap());
        assert_eq!((shares.free(), shares.0.held.lock()[&one]), (19, 13));
        let mut waiting = Box::pin(shares.wait_many(Some(&one), 7));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        share.give_back(3);
        assert!(futures_util::poll!(&mut waiting).is_ready(), "returned permits serve those who wait");
        drop(waiting);
        share.give_back(100);
        assert!(shares.free() == 32 && shares.0.held.lock().is_empty());
        drop(share);
        assert!(shares.free() == 32 && shares.0.held.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_who_was_not_served_comes_before_further_requests_of_others() {
        let shares = Shares::new(Arc::new(Semaphore::new(2)));
        let [busy, eager, rare] = ["1", "2", "3"].map(person);
        let (first, second) = (shares.wait(Some(&busy)).await, shares.wait(Some(&eager)).await);
        let mut further: Vec<_> =
            [&busy, &eager, &busy, &eager].map(|person| Box::pin(shares.wait(Some(person)))).into_iter().collect();
        for request in &mut further {
            assert!(futures_util::poll!(request).is_pending());
        }
        let mut gone = Box::pin(shares.wait(Some(&rare)));
        assert!(futures_util::poll!(&mut gone).is_pending());
        drop(gone);
        let mut last = Box::pin(shares.wait(Some(&rare)));
        assert!(futures_util::poll!(&mut last).is_pending());
        drop(first);
        let served = futures_util::poll!(&mut last);
        assert!(served.is_ready(), "the request that came last is the first of its person");
        drop((served, second));
        let mut held = Vec::new();
        for mut request in further {
            held.extend(match futures_util::poll!(&mut request) {
                std::task::Poll::Ready(share) => Some(share),
                std::task::Poll::Pending => None,
            });
        }
        assert_eq!(held.len(), 2, "one of each");
        drop(held);
        assert!(shares.free() == 2 && shares.0.held.lock().is_empty());
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
