//! What a turn has spent so far. It survives the future that the turn's deadline drops, and the task that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::messages::deadline::Deadline;
use domain::answer_end::AnswerEnd;
use domain::completion::{Completion, Usage};
use domain::ending::Ending;
use domain::ids;
use domain::ledger;
use domain::model::Row;
use domain::notice::{self, Apology};
use domain::turn::{Answer, Effort, Turn};

/// The effort of one turn. Clones are the same one.
#[derive(Clone, Default)]
pub struct Tally {
    spent: Arc<Spent>,
    /// It counts work beside the turn's own dialogue.
    beside: bool,
}

#[derive(Default)]
struct Spent {
    effort: Mutex<Effort>,
    acted: AtomicBool,
    /// The same of an earlier part of the turn.
    acted_before: AtomicBool,
}

impl Tally {
    /// The tally of a turn that goes on: what its earlier parts spent, and whether something may have been changed for them.
    #[must_use]
    pub fn going_on(effort: Effort, acted_before: bool) -> Self {
        let spent = Spent {
            effort: Mutex::new(effort),
            acted: AtomicBool::new(false),
            acted_before: AtomicBool::new(acted_before),
        };
        Self { spent: Arc::new(spent), beside: false }
    }

    /// The same account for work that a call of a tool does: the answer is not its, and its waits are those of the call.
    pub(super) fn beside(&self) -> Self {
        Self { spent: Arc::clone(&self.spent), beside: true }
    }

    /// It is on record that the turn acts: a tool that changes something may run.
    pub(super) fn acts(&self) {
        self.spent.acted.store(true, Ordering::Relaxed);
    }

    /// The same is known.
    pub(super) fn has_acted(&self) -> bool {
        self.spent.acted.load(Ordering::Relaxed)
    }

    /// Something may have been changed for this turn, now or in an earlier part of it.
    pub(super) fn may_have_acted(&self) -> bool {
        self.has_acted() || self.spent.acted_before.load(Ordering::Relaxed)
    }

    /// The apology for a turn that ends like this. Whoever would ask again learns that it may have happened already.
    #[must_use]
    pub fn apology(&self, turn: &Turn, why: Ending) -> Answer {
        let apology = if self.may_have_acted() { Apology::MayHaveActed } else { Apology::of(why) };
        turn.apology(notice::apology(apology, turn.locale()), why)
    }

    /// A call to this row gave a completion, after so long, with so many prompt tokens that tools added.
    pub(super) fn completed(&self, row: &Row, completion: &Completion, (took, tool_tokens): (Duration, u64)) {
        let effort = &mut *self.spent.effort.lock();
        add(effort, row, (completion.usage, tool_tokens));
        if self.beside {
            return;
        }
        (effort.end, effort.again_ms) = (AnswerEnd::of(completion), None);
        effort.model = Some(row.key.clone());
        effort.waited_ms += ids::millis(took);
    }

    /// The turn waits for tools until the stopwatch is dropped.
    pub(super) fn waits_for_tools(&self) -> Stopwatch<'_> {
        self.watch(|effort, took| {
            effort.waited_ms += took;
            effort.times.tools_ms += took;
        })
    }

    /// The turn waits for a permit to ask a model until the stopwatch is dropped.
    pub(super) fn waits_for_permit(&self) -> Stopwatch<'_> {
        self.watch(|effort, took| effort.times.permit_ms += took)
    }

    fn watch(&self, add: fn(&mut Effort, u64)) -> Stopwatch<'_> {
        Stopwatch { tally: self, began: Instant::now(), add }
    }

    /// The turn waited so long in its lane.
    pub(super) fn queued(&self, took: Duration) {
        self.spent.effort.lock().times.lane_ms += ids::millis(took);
    }

    /// The turn was with models for so long, whatever came of it.
    pub(super) fn modelled(&self, took: Duration) {
        if !self.beside {
            self.spent.effort.lock().times.model_ms += ids::millis(took);
        }
    }

    /// A call to this row ended without one, after so much had been streamed; tools added so many of its prompt tokens.
    pub(super) fn cut_off(&self, row: &Row, at_least: Usage, tool_tokens: u64) {
        add(&mut self.spent.effort.lock(), row, (at_least, tool_tokens));
    }

    /// No model could answer, and the last one may be asked again after so long; none where that is not known.
    pub(super) fn ask_again(&self, after: Option<Duration>) {
        if !self.beside {
            self.spent.effort.lock().again_ms = after.map(ids::millis);
        }
    }

    /// What was spent by now.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.spent.effort.lock().clone()
    }
}

fn add(effort: &mut Effort, row: &Row, (usage, tool_tokens): (Usage, u64)) {
    ledger::charge(effort, row.price, usage);
    effort.usage += usage;
    effort.tool_tokens = effort.tool_tokens.saturating_add(tool_tokens);
}

/// Adds the time until it is dropped, also by the turn's deadline.
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

/// How many characters of one call's answer came so far. Each piece moves the deadline of its turn on. Clones are the same count.
#[derive(Clone)]
pub(super) struct Flow {
    chars: Arc<AtomicUsize>,
    deadline: Deadline,
}

impl Flow {
    /// Nothing came yet.
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
