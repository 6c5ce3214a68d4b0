//! The deadlines of an orderly end, and its result in words.

use std::time::Duration;

use tokio::time::Instant;

use actors::tree::TREE;

/// The time that stopping the tree and closing the store may take together after a drain that used all of its time.
pub const AFTER_DRAIN: Duration = Duration::from_secs(4);
/// The part of [`AFTER_DRAIN`] reserved for the store.
const STORE_LEAST: Duration = Duration::from_millis(1_500);

/// The timeout for the store to write its remaining data when the process ends.
pub(in crate::app) const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The deadlines of an orderly end: the tree and the store share the time that the drain left over, within bounds.
pub(super) struct Deadlines {
    end: Instant,
}

impl Deadlines {
    /// Returns the deadlines of an end that begins now with a drain of at most this time.
    pub(super) fn of(now: Instant, drain: Duration) -> Self {
        Self { end: now + drain + AFTER_DRAIN }
    }

    /// Returns the time for the tree to stop.
    pub(super) fn tree(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now).saturating_sub(STORE_LEAST).min(TREE.stop_timeout)
    }

    /// Returns the time for the store to write its remaining data.
    pub(super) fn store(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now).clamp(STORE_LEAST, STORE_TIMEOUT)
    }
}

/// Returns the result of a drain as a sentence.
pub(super) const fn summary(finished: bool, left: Option<usize>, saved: bool) -> &'static str {
    match (finished, left, saved) {
        (_, _, false) => "drained; some data could not be saved and is lost",
        (true, Some(0), true) => "drained; nothing is left",
        (true, _, true) => "drained; turns that arrived meanwhile stay in the journal",
        (false, _, true) => "drained; the remaining turns stay in the journal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_tree_and_store_fit_into_the_time_that_runtimes_wait() {
        let begun = Instant::now();
        let drain = Duration::from_secs(25);
        let end = Deadlines::of(begun, drain);
        let tree_begins = begun + drain;
        let store_begins = tree_begins + end.tree(tree_begins);
        let all = drain + end.tree(tree_begins) + end.store(store_begins);
        assert!(all < Duration::from_secs(30) && end.tree(tree_begins) > Duration::from_secs(2), "{all:?}");
        assert_eq!(end.store(store_begins), STORE_LEAST);
        assert_eq!(
            (end.tree(begun), end.store(begun)),
            (TREE.stop_timeout, STORE_TIMEOUT),
            "a short drain leaves more"
        );
    }

    #[test]
    fn nothing_is_said_to_be_left_only_when_all_is_answered_and_saved() {
        let mut said = 0;
        for (finished, left, saved) in
            [(true, Some(0), true), (true, Some(0), false), (false, Some(0), true), (true, None, true)]
        {
            let whole = finished && left == Some(0) && saved;
            assert_eq!(summary(finished, left, saved).contains("nothing is left"), whole);
            said += usize::from(whole);
        }
        assert_eq!(said, 1);
    }
}
