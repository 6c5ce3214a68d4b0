//! Which calls approvers let run for a while. Lives outside the actors: turns look at it, approvals keeps it. Until that has read what
//! an earlier life knew, nothing is allowed, and people are asked.

use parking_lot::RwLock;

use domain::gate::allowance::{ALLOWANCES_MAX, Allowance, Asked};
use domain::ids::Timestamp;

/// The standing allowances.
#[derive(Default)]
pub struct Allowances(RwLock<Vec<Allowance>>);

impl Allowances {
    /// Whether one of them lets this call run now.
    #[must_use]
    pub fn let_run(&self, asked: &Asked<'_>, now: Timestamp) -> bool {
        self.0.read().iter().any(|allowance| allowance.lets_run(asked, now))
    }

    /// One more. Those that are over make room, and then the one that ends first, which is given back.
    pub fn add(&self, allowance: Allowance, now: Timestamp) -> Option<Allowance> {
        let mut all = self.0.write();
        all.retain(|known| known.until > now && known.id != allowance.id);
        let full = all.len() >= ALLOWANCES_MAX;
        let first = (0..all.len()).min_by_key(|at| all[*at].until).filter(|_| full);
        let gone = first.map(|at| all.swap_remove(at));
        all.push(allowance);
        gone
    }

    /// Those that hold now.
    #[must_use]
    pub fn now(&self, now: Timestamp) -> Vec<Allowance> {
        self.0.read().iter().filter(|allowance| allowance.until > now).cloned().collect()
    }

    /// Takes back those of which this holds, and gives them.
    pub fn withdraw(&self, which: impl Fn(&Allowance) -> bool) -> Vec<Allowance> {
        let mut all = self.0.write();
        let (gone, kept) = all.drain(..).partition(|allowance| which(allowance));
        *all = kept;
        gone
    }
}
