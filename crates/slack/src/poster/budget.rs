//! The edits of a workspace. Slack accepts about fifty a minute (`chat.update`, tier 3) and a hundred additions to streams
//! (`chat.appendStream`, tier 4), in all threads together. Edits that finish an answer are never delayed here; edits of
//! drafts get a part of the tier, each thread the same share.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::ids::Place;

/// The window of the tier.
const WINDOW: Duration = Duration::from_secs(60);
/// The shortest time between two edits of one draft.
const EVERY: Duration = Duration::from_millis(1_200);

/// The edits of the last window.
pub(crate) struct EditBudget {
    /// The most edits of drafts in a window. The rest of the tier is for edits that finish answers.
    drafts: u32,
    /// The edits in a window after which drafts stop.
    all: usize,
    edits: Mutex<Edits>,
}

#[derive(Default)]
struct Edits {
    /// The times of all edits.
    all: VecDeque<Instant>,
    /// The time of the last edit of a draft in each thread.
    drafts: HashMap<Place, Instant>,
    /// The end of Slack's own limit.
    limited: Option<Instant>,
}

impl EditBudget {
    /// Creates the budget of `chat.update`.
    pub(crate) fn of_updates() -> Self {
        Self { drafts: 30, all: 40, edits: Mutex::default() }
    }

    /// Creates the budget of `chat.appendStream`.
    pub(crate) fn of_appends() -> Self {
        Self { drafts: 75, all: 90, edits: Mutex::default() }
    }

    /// Counts an edit.
    pub(super) fn spend(&self, now: Instant) {
        let mut edits = self.edits.lock();
        edits.tidy(now, self.drafts);
        edits.all.push_back(now);
    }

    /// Stops edits of drafts until this time, because Slack limits edits.
    pub(super) fn limited(&self, until: Instant) {
        self.edits.lock().limited = Some(until);
    }

    /// True if the draft of a thread may be edited now; counts it as the thread's last edit. With many threads, each
    /// waits for its share.
    pub(super) fn admits(&self, thread: &Place, now: Instant) -> bool {
        let mut edits = self.edits.lock();
        edits.tidy(now, self.drafts);
        if edits.limited.is_some_and(|until| until > now) || edits.all.len() >= self.all {
            return false;
        }
        let others = edits.drafts.len() - usize::from(edits.drafts.contains_key(thread));
        let threads = u32::try_from(others + 1).unwrap_or(u32::MAX);
        // The first edits of further threads count at once, before they are sent.
        if threads > self.drafts {
            return false;
        }
        let share = EVERY.max(WINDOW * threads / self.drafts);
        if edits.drafts.get(thread).is_some_and(|last| now.duration_since(*last) < share) {
            return false;
        }
        edits.drafts.insert(thread.clone(), now);
        true
    }
}

impl Edits {
    fn tidy(&mut self, now: Instant, drafts: u32) {
        while self.all.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            self.all.pop_front();
        }
        // A thread whose draft ended frees its share within a few intervals, at the latest after a window.
        let threads = u32::try_from(self.drafts.len()).unwrap_or(u32::MAX);
        let idle = (EVERY.max(WINDOW.saturating_mul(threads) / drafts) * 3).min(WINDOW);
        self.drafts.retain(|_, last| now.duration_since(*last) < idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids;

    /// Returns the edits of each thread that ask every 100 milliseconds for two minutes, in the second minute.
    fn edits(threads: usize, finals_each_second: usize) -> (Vec<usize>, usize) {
        let (budget, begun) = (EditBudget::of_updates(), Instant::now());
        let places: Vec<Place> = (0..threads).map(|number| ids::thread("C1", &format!("{}.1", number + 1))).collect();
        let (mut drafts, mut most) = (vec![0; threads], 0);
        let mut sent = VecDeque::new();
        for tick in 0..1_200 {
            let now = begun + Duration::from_millis(tick * 100);
            let finals = if tick % 10 == 0 { finals_each_second } else { 0 };
            for _ in 0..finals {
                budget.spend(now);
            }
            for (place, count) in places.iter().zip(&mut drafts) {
                if budget.admits(place, now) {
                    budget.spend(now);
                    sent.push_back(now);
                    *count += usize::from(tick >= 600);
                }
            }
            while sent.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
                sent.pop_front();
            }
            most = most.max(sent.len());
        }
        (drafts, most)
    }

    #[test]
    fn drafts_in_many_threads_leave_room_for_answers_and_each_gets_its_share() {
        for threads in [1, 3, 10, 30] {
            let (drafts, most) = edits(threads, 0);
            assert!(most <= 40, "{threads}: {most}");
            let (least, best) = (drafts.iter().min().unwrap(), drafts.iter().max().unwrap());
            assert!(*least > 0 && best - least <= 2, "{threads}: {drafts:?}");
        }
        assert!(edits(100, 0).1 <= 40);
    }

    #[test]
    fn drafts_stop_while_answers_need_the_tier_or_slack_limits_edits() {
        assert_eq!(edits(3, 1).0, [0; 3]);
        let (budget, now) = (EditBudget::of_updates(), Instant::now());
        let thread = ids::thread("C1", "1.1");
        budget.limited(now + Duration::from_secs(10));
        assert!(!budget.admits(&thread, now + Duration::from_secs(9)));
        assert!(budget.admits(&thread, now + Duration::from_secs(10)));
    }
}
