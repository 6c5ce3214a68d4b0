//! What a turn has spent so far. It survives the future that the turn's deadline drops, and the task that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::domain::completion::{Completion, Finish, Usage};
use crate::domain::ending::Ending;
use crate::domain::ids;
use crate::domain::ledger;
use crate::domain::model::Row;
use crate::domain::notice::{self, Apology};
use crate::domain::turn::{Answer, Effort, Turn};

/// The effort of one turn. Clones are the same one.
#[derive(Clone, Default)]
pub struct Tally(Arc<Spent>);

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
        Self(Arc::new(Spent {
            effort: Mutex::new(effort),
            acted: AtomicBool::new(false),
            acted_before: AtomicBool::new(acted_before),
        }))
    }

    /// It is on record that the turn acts: a tool that changes something may run.
    pub(super) fn acts(&self) {
        self.0.acted.store(true, Ordering::Relaxed);
    }

    /// The same is known.
    pub(super) fn has_acted(&self) -> bool {
        self.0.acted.load(Ordering::Relaxed)
    }

    /// Something may have been changed for this turn, now or in an earlier part of it.
    pub(super) fn may_have_acted(&self) -> bool {
        self.has_acted() || self.0.acted_before.load(Ordering::Relaxed)
    }

    /// The apology for a turn that ends like this. Whoever would ask again learns that it may have happened already.
    #[must_use]
    pub fn apology(&self, turn: &Turn, why: Ending) -> Answer {
        let apology = if self.may_have_acted() { Apology::MayHaveActed } else { Apology::of(why) };
        turn.apology(notice::apology(apology, turn.locale()), why)
    }

    /// A call to this row gave a completion.
    pub(super) fn completed(&self, row: &Row, completion: &Completion, took: Duration) {
        let effort = &mut *self.0.effort.lock();
        add(effort, row, completion.usage);
        effort.cut_off = completion.finish == Finish::Length;
        effort.model = Some(row.key.clone());
        effort.waited_ms += ids::millis(took);
    }

    /// The turn waited so long for tools.
    pub(super) fn waited(&self, took: Duration) {
        self.0.effort.lock().waited_ms += ids::millis(took);
    }

    /// A call to this row ended without one, after so much had been streamed.
    pub(super) fn cut_off(&self, row: &Row, at_least: Usage) {
        add(&mut self.0.effort.lock(), row, at_least);
    }

    /// What was spent by now.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.0.effort.lock().clone()
    }
}

fn add(effort: &mut Effort, row: &Row, usage: Usage) {
    ledger::charge(effort, row.price, usage);
    effort.usage += usage;
}

/// How many characters of one call's answer came so far. Clones are the same count.
#[derive(Clone, Default)]
pub(super) struct Flow(Arc<AtomicUsize>);

impl Flow {
    pub fn add(&self, chars: usize) {
        self.0.fetch_add(chars, Ordering::Relaxed);
    }

    pub fn chars(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
