//! The memory of long results of tools, which turns keep in full so that their models can page through them. All turns
//! share one budget by the rule of [`domain::fair_share`]. Without memory, a model reads only the beginning and the end of
//! a result.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use domain::ids::Person;
use ports::shares::{Share, Shares};

/// The bytes of all long results. One person has at most half of them.
const ALL_BYTES: usize = 32 * 1024 * 1024;
/// The unit of the budget, in bytes.
const UNIT: usize = 1024;

/// The budget of all turns. Clones are the same budget.
#[derive(Clone)]
pub struct LongResults(Shares);

impl Default for LongResults {
    fn default() -> Self {
        Self(Shares::new(Arc::new(Semaphore::new(ALL_BYTES / UNIT))))
    }
}

impl LongResults {
    /// Returns the free memory in bytes.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.free() * UNIT
    }

    /// Begins a turn of this person, which has no memory yet.
    #[must_use]
    pub fn of_turn(&self, person: &Person) -> TurnResults {
        TurnResults { all: self.0.clone(), person: person.clone(), held: Arc::default() }
    }
}

/// The memory of one turn, released when its last clone is dropped.
#[derive(Clone)]
pub struct TurnResults {
    all: Shares,
    person: Person,
    held: Arc<Mutex<Vec<Share>>>,
}

impl TurnResults {
    /// Reserves memory for this many bytes. Returns false if it is not free for the person.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let share = self.all.take_many(Some(&self.person), bytes.div_ceil(UNIT));
        share.map(|share| self.held.lock().push(share)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::person;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn one_person_has_at_most_half_over_all_turns_and_leaves_the_rest_to_others() {
        let results = LongResults::default();
        let turns: Vec<TurnResults> = (0..40).map(|_| results.of_turn(&person("7"))).collect();
        let held = turns.iter().filter(|turn| turn.hold(MIB)).count();
        assert_eq!((held * MIB, results.free()), (ALL_BYTES / 2, ALL_BYTES / 2));
        let other = results.of_turn(&person("8"));
        assert!(other.hold(MIB) && other.clone().hold(MIB) && other.hold(0));
        drop(turns);
        assert_eq!(results.free(), ALL_BYTES - 2 * MIB);
        drop(other);
        assert_eq!(results.free(), ALL_BYTES);
    }
}
