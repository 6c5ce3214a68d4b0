//! The standing allowances: calls that approvers let run without a question for a limited time. The set lives outside
//! the actors: turns read it, approvals writes it. It is empty until approvals has read the records of an earlier
//! process, so until then each call needs a decision.

use parking_lot::RwLock;

use domain::gate::allowance::{ALLOWANCES_MAX, Allowance, GatedCall};
use domain::ids::Timestamp;

/// The standing allowances.
#[derive(Default)]
pub struct Allowances(RwLock<Vec<Allowance>>);

impl Allowances {
    /// True if one of the allowances lets this call run now.
    #[must_use]
    pub fn let_run(&self, asked: &GatedCall<'_>, now: Timestamp) -> bool {
        self.0.read().iter().any(|allowance| allowance.lets_run(asked, now))
    }

    /// Adds an allowance and drops expired ones. If the set is full, the allowance that expires first is evicted and
    /// returned.
    pub fn add(&self, allowance: Allowance, now: Timestamp) -> Option<Allowance> {
        let mut all = self.0.write();
        all.retain(|known| known.until > now && known.id != allowance.id);
        let full = all.len() >= ALLOWANCES_MAX;
        let first = (0..all.len()).min_by_key(|at| all[*at].until).filter(|_| full);
        let gone = first.map(|at| all.swap_remove(at));
        all.push(allowance);
        gone
    }

    /// Returns the allowances that are valid now.
    #[must_use]
    pub fn now(&self, now: Timestamp) -> Vec<Allowance> {
        self.0.read().iter().filter(|allowance| allowance.until > now).cloned().collect()
    }

    /// Removes and returns the matching allowances.
    pub fn withdraw(&self, which: impl Fn(&Allowance) -> bool) -> Vec<Allowance> {
        let mut all = self.0.write();
        let (gone, kept) = all.drain(..).partition(|allowance| which(allowance));
        *all = kept;
        gone
    }
}
