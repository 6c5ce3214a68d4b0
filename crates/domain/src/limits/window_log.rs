//! The sliding-window algorithm on the entries of one member. The current time is an argument.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Basis, Cost, Decision, ENTRIES_MAX, LimitRefusal, LimitStep, Limits, Request, Reservation, TOKENS_MAX, Used,
    estimate_max, turn_part,
};
use crate::ids::{self, Timestamp, TurnId};
use crate::planted::Defect;

/// The entries of one member in the window, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WindowLog {
    entries: Vec<WindowEntry>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowEntry {
    /// The time from which it counts.
    pub at: Timestamp,
    /// The tokens used, or their estimate.
    pub tokens: u64,
    /// The turn of the entry, as written in keys; none for entries of another program.
    pub turn: Option<Arc<str>>,
    /// True if it counts as a message; all our entries do.
    pub message: bool,
    /// The basis of its tokens.
    pub state: EntryState,
}

/// The basis of an entry's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// An estimate. The turn is expected to be settled or cancelled by this time.
    Open(Timestamp),
    /// A final estimate: the turn ended and its actual use is unknown.
    Estimated,
    /// The actual use.
    Settled,
}

impl EntryState {
    /// True if the turn may still be settled or cancelled.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Open(_))
    }
}

impl WindowLog {
    /// Builds a log of these entries, in any order.
    #[must_use]
    pub fn of(mut entries: Vec<WindowEntry>) -> Self {
        entries.sort_by_key(|entry| entry.at);
        Self { entries }
    }

    /// Returns the entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[WindowEntry] {
        &self.entries
    }

    /// True if no entry counts any more.
    #[must_use]
    pub fn is_over(&self, now: Timestamp, window: Duration) -> bool {
        self.entries.iter().all(|entry| aged(entry, now, window))
    }

    /// Performs one step. The flag is true if the step added, changed or removed an entry.
    pub fn step(&mut self, now: Timestamp, request: &Request) -> (Decision, bool) {
        let window = request.window;
        self.refresh(now, window);
        match &request.step {
            LimitStep::Reserve(ask) => self.reserve(now, window, ask),
            LimitStep::Settle(turn, tokens) => (Decision::Done, self.settle(turn, *tokens)),
            LimitStep::Cancel(turn) => (Decision::Done, self.cancel(turn)),
            LimitStep::Read(limits) => {
                let wait = self.refusal(now, window, 1, *limits).and_then(|refusal| refusal.retry_after);
                (Decision::Used(self.used(wait)), false)
            }
        }
    }

    /// Returns the current use, with the given time until a message of one token is accepted.
    #[must_use]
    pub fn used(&self, wait: Option<Duration>) -> Used {
        Used { messages: self.messages(), tokens: self.tokens(), wait, accounts: Vec::new() }
    }

    /// Returns the entry of a turn.
    #[must_use]
    pub fn entry(&self, turn: &str) -> Option<&WindowEntry> {
        self.position(turn).map(|at| &self.entries[at])
    }

    /// Merges the state of a turn from another copy of the log; `None` if it was cancelled there. A settled entry stays
    /// settled.
    pub fn merge(&mut self, turn: &str, known: Option<&WindowEntry>) {
        match (self.position(turn), known) {
            (Some(at), None) => drop(self.entries.remove(at)),
            (Some(at), Some(known)) if self.entries[at].state.is_open() && !known.state.is_open() => {
                self.entries[at].tokens = known.tokens;
                self.entries[at].state = known.state;
            }
            (None, Some(known)) => {
                let at = self.entries.partition_point(|entry| entry.at <= known.at);
                self.entries.insert(at, known.clone());
                self.trim();
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Removes entries that have aged out. Entries in the future, after the clock was set back, count from now: so no
    /// turn is admitted early, and none is refused for longer than the window.
    pub(super) fn refresh(&mut self, now: Timestamp, window: Duration) {
        if self.entries.last().is_some_and(|newest| newest.at > now) {
            self.entries.iter_mut().for_each(|entry| entry.at = entry.at.min(now));
        }
        let over = self.entries.partition_point(|entry| aged(entry, now, window));
        self.entries.drain(..over);
    }

    fn reserve(&mut self, now: Timestamp, window: Duration, ask: &Reservation) -> (Decision, bool) {
        let turn = turn_part(&ask.turn);
        if self.position(&turn).is_some() {
            return (Decision::Admitted, false);
        }
        let mut tokens = ask.tokens.min(TOKENS_MAX);
        if !ask.exempt {
            tokens = tokens.min(estimate_max(ask.limits.tokens));
            if let Some(refusal) = self.refusal(now, window, tokens, ask.limits) {
                return (Decision::Refused(refusal), false);
            }
        }
        let lease = Timestamp(now.0.saturating_add(ids::millis(ask.lease)));
        if self.entries.is_empty() {
            // Most members have one entry per window, and there may be fifty thousand members.
            self.entries.shrink_to(1);
            self.entries.reserve_exact(1);
        }
        self.push(WindowEntry {
            at: now,
            tokens,
            turn: Some(turn.into()),
            message: true,
            state: EntryState::Open(lease),
        });
        (Decision::Admitted, true)
    }

    /// Adds an entry that is newer than all others.
    pub(super) fn push(&mut self, entry: WindowEntry) {
        self.entries.push(entry);
        self.trim();
    }

    pub(super) fn settle(&mut self, turn: &TurnId, tokens: Option<u64>) -> bool {
        let Some(at) = self.position(&turn_part(turn)) else { return false };
        let entry = &mut self.entries[at];
        if !entry.state.is_open() {
            return false;
        }
        match tokens {
            Some(tokens) => (entry.tokens, entry.state) = (tokens.min(TOKENS_MAX), EntryState::Settled),
            None => entry.state = EntryState::Estimated,
        }
        true
    }

    pub(super) fn cancel(&mut self, turn: &TurnId) -> bool {
        let at = self.position(&turn_part(turn));
        let open = at.filter(|at| self.entries[*at].state.is_open());
        open.map(|at| self.entries.remove(at)).is_some()
    }

    /// Returns the refusal of one further message with this number of tokens; none if it fits.
    pub(super) fn refusal(
        &self,
        now: Timestamp,
        window: Duration,
        tokens: u64,
        limits: Limits,
    ) -> Option<LimitRefusal> {
        let allowed = (limits.messages as usize + usize::from(Defect::OneMore.is_planted())).min(ENTRIES_MAX);
        let held = self.entries.iter().filter(|entry| entry.message).count();
        let many = held >= allowed;
        let used = self.tokens();
        let much = limits.tokens == 0 || used.saturating_add(tokens) > limits.tokens;
        if !many && !much {
            return None;
        }
        let retry_after = (allowed > 0 && limits.tokens > 0).then(|| {
            let mut excess = (held + 1).saturating_sub(allowed);
            let mut debt = used.saturating_add(tokens).saturating_sub(limits.tokens);
            let mut last = now;
            for entry in &self.entries {
                if excess == 0 && debt == 0 {
                    break;
                }
                excess -= usize::from(excess > 0 && entry.message);
                debt = debt.saturating_sub(entry.tokens);
                last = Timestamp(entry.at.0.saturating_add(ids::millis(window)));
            }
            last.since(now)
        });
        let settled = self.sum(|entry| entry.state == EntryState::Settled);
        let basis = Basis::of(many, settled, tokens, limits.tokens);
        let cost = if much && (!many || settled >= limits.tokens) { Cost::Tokens } else { Cost::Messages };
        Some(LimitRefusal { cost, retry_after, basis, account: None })
    }

    fn position(&self, turn: &str) -> Option<usize> {
        // Recent turns are looked up most often.
        self.entries.iter().rposition(|entry| entry.turn.as_deref() == Some(turn))
    }

    fn messages(&self) -> u32 {
        let held = self.entries.iter().filter(|entry| entry.message).count();
        u32::try_from(held).unwrap_or(u32::MAX)
    }

    fn tokens(&self) -> u64 {
        self.sum(|_| true)
    }

    fn sum(&self, counts: impl Fn(&WindowEntry) -> bool) -> u64 {
        self.entries.iter().filter(|entry| counts(entry)).fold(0, |sum, entry| sum.saturating_add(entry.tokens))
    }

    #[cfg(test)]
    pub(super) const fn room(&self) -> usize {
        self.entries.capacity()
    }

    fn trim(&mut self) {
        let over = self.entries.len().saturating_sub(ENTRIES_MAX);
        self.entries.drain(..over);
    }
}

fn aged(entry: &WindowEntry, now: Timestamp, window: Duration) -> bool {
    entry.at.0.saturating_add(ids::millis(window)) <= now.0
}
