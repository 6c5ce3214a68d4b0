//! The resources that a turn has used. The tally survives the drop of the future at the turn's deadline, and a panic of
//! the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::messages::deadline::Deadline;
use domain::answer_end::AnswerEnd;
use domain::completion::{Completion, Usage, estimated_tokens};
use domain::ending::Ending;
use domain::experiment::Trial;
use domain::ids;
use domain::ledger;
use domain::model::Row;
use domain::notice::{self, Apology};
use domain::reply::MAX_CONTENT_BYTES;
use domain::turn::{Answer, Effort, Turn};

/// The effort of one turn. Clones share it.
#[derive(Clone, Default)]
pub struct Tally {
    spent: Arc<Spent>,
    /// True if it counts work of a tool call and not of the turn's own dialogue.
    beside: bool,
}

#[derive(Default)]
struct Spent {
    effort: Mutex<Effort>,
    acted: AtomicBool,
    /// True if an earlier part of the turn is recorded as acting.
    acted_before: AtomicBool,
}

impl Tally {
    /// Returns the tally of a resumed turn, with the use of its earlier parts and their possible side effects.
    #[must_use]
    pub fn going_on(effort: Effort, acted_before: bool) -> Self {
        let spent = Spent {
            effort: Mutex::new(effort),
            acted: AtomicBool::new(false),
            acted_before: AtomicBool::new(acted_before),
        };
        Self { spent: Arc::new(spent), beside: false }
    }

    /// Returns the same tally for work inside a tool call, which produces no answer and whose waiting time counts as
    /// that of the call.
    pub(super) fn beside(&self) -> Self {
        Self { spent: Arc::clone(&self.spent), beside: true }
    }

    /// Notes that the journal has recorded the turn as acting: a tool with side effects may run.
    pub(super) fn acts(&self) {
        self.spent.acted.store(true, Ordering::Relaxed);
    }

    /// True if the journal has recorded the turn as acting.
    pub(super) fn has_acted(&self) -> bool {
        self.spent.acted.load(Ordering::Relaxed)
    }

    /// True if this turn may have had side effects, now or in an earlier part.
    pub(super) fn may_have_acted(&self) -> bool {
        self.has_acted() || self.spent.acted_before.load(Ordering::Relaxed)
    }

    /// Returns the apology for this end of a turn. It warns a member who would ask again that side effects may have
    /// happened already.
    #[must_use]
    pub fn apology(&self, turn: &Turn, why: Ending) -> Answer {
        let apology = if self.may_have_acted() { Apology::MayHaveActed } else { Apology::of(why) };
        turn.apology(notice::apology(apology, turn.locale()), why)
    }

    /// Counts a completion of this row, with its duration and the number of prompt tokens that tools added.
    pub(super) fn completed(&self, row: &Row, completion: &Completion, took: Duration, tool_tokens: u64) {
        let effort = &mut *self.spent.effort.lock();
        add(effort, row, completion.usage, tool_tokens);
        if self.beside {
            return;
        }
        (effort.end, effort.again_ms) = (AnswerEnd::of(completion), None);
        effort.model = Some(row.key.clone());
        effort.waited_ms += ids::millis(took);
    }

    /// Counts the time spent in tools until the stopwatch is dropped.
    pub(super) fn waits_for_tools(&self) -> Stopwatch<'_> {
        self.watch(|effort, took| {
            effort.waited_ms += took;
            effort.times.tools_ms += took;
        })
    }

    /// Counts the time without a permit for a model call until the stopwatch is dropped.
    pub(super) fn waits_for_permit(&self) -> Stopwatch<'_> {
        self.watch(|effort, took| effort.times.permit_ms += took)
    }

    fn watch(&self, add: fn(&mut Effort, u64)) -> Stopwatch<'_> {
        Stopwatch { tally: self, began: Instant::now(), add }
    }

    /// Sets the time that the turn spent in the queue of its lane.
    pub(super) fn queued(&self, took: Duration) {
        self.spent.effort.lock().times.lane_ms += ids::millis(took);
    }

    /// Adds the duration of model calls, independent of their result.
    pub(super) fn modelled(&self, took: Duration) {
        if !self.beside {
            self.spent.effort.lock().times.model_ms += ids::millis(took);
        }
    }

    /// Counts a call to this row that ended without a completion: the streamed tokens, and the prompt tokens that tools
    /// added. A model that does not stop costs the member at most the longest answer.
    pub(super) fn cut_off(&self, row: &Row, at_least: Usage, tool_tokens: u64) {
        let effort = &mut *self.spent.effort.lock();
        add(effort, row, at_least, tool_tokens);
        let longest = estimated_tokens(MAX_CONTENT_BYTES);
        let longest = row.max_tokens.map_or(longest, |most| longest.min(most.into()));
        let excess = at_least.completion.saturating_sub(longest);
        effort.excess_tokens = effort.excess_tokens.saturating_add(excess);
    }

    /// Adds a cost that a tool paid, in millionths of a dollar.
    pub(super) fn paid(&self, micros: u64) {
        let effort = &mut *self.spent.effort.lock();
        effort.paid_micros = effort.paid_micros.saturating_add(micros);
    }

    /// Notes that no model could answer, and the time after which the last one may be called again; `None` if it is not
    /// known.
    pub(super) fn ask_again(&self, after: Option<Duration>) {
        if !self.beside {
            self.spent.effort.lock().again_ms = after.map(ids::millis);
        }
    }

    /// Sets the arm of the turn, unless it has one from before it was parked.
    pub(super) fn joins(&self, trial: Option<Trial>) {
        let effort = &mut *self.spent.effort.lock();
        effort.trial = effort.trial.take().or(trial);
    }

    /// Sets the number of repairs of the reply.
    pub(super) fn repaired(&self, repairs: u32) {
        if !self.beside {
            self.spent.effort.lock().repairs = repairs;
        }
    }

    /// Returns the resources used so far.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.spent.effort.lock().clone()
    }
}

fn add(effort: &mut Effort, row: &Row, usage: Usage, tool_tokens: u64) {
    ledger::charge(effort, row.price, usage);
    effort.usage += usage;
    effort.tool_tokens = effort.tool_tokens.saturating_add(tool_tokens);
}

/// Adds the time until it is dropped, which includes a drop at the turn's deadline.
pub(super) struct Stopwatch<'a> {
    tally: &'a Tally,
    began: Instant,
    add: fn(&mut Effort, u64),
}

impl Drop for Stopwatch<'_> {
    fn drop(&mut self) {
        if !self.tally.beside {
            (self.add)(&mut self.tally.spent.effort.lock(), ids::millis(self.began.elapsed()));
        }
    }
}

/// The number of characters received of one call's answer. Each piece extends the deadline of its turn. Clones share
/// the count.
#[derive(Clone)]
pub(super) struct Flow {
    chars: Arc<AtomicUsize>,
    deadline: Deadline,
}

impl Flow {
    /// Returns a flow without any characters.
    pub fn new(deadline: &Deadline) -> Self {
        Self { chars: Arc::default(), deadline: deadline.clone() }
    }

    pub fn add(&self, chars: usize) {
        self.chars.fetch_add(chars, Ordering::Relaxed);
        self.deadline.move_on();
    }

    pub fn chars(&self) -> usize {
        self.chars.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_end_costs_its_member_the_longest_answer_and_the_bot_all_of_it() {
        let mut row = Row::new("main", Duration::from_secs(1));
        for (max_tokens, most) in [(None, 65_536), (Some(500), 500), (Some(1_000_000), 65_536)] {
            row.max_tokens = max_tokens;
            for chars in [1_000, 4 << 20] {
                let tally = Tally::default();
                let streamed = Usage::of_streamed(400, chars);
                tally.cut_off(&row, streamed, 0);
                let effort = tally.effort();
                assert_eq!(effort.usage, streamed);
                let charged = effort.of_member();
                assert_eq!(
                    (charged.prompt, charged.completion),
                    (100, streamed.completion.min(most)),
                    "{max_tokens:?}"
                );
                assert_eq!(effort.since(&Effort::default()).of_member(), charged);
            }
        }
    }
}
