//! The refusals of one model row. If consecutive turns end in the same permanent refusal, the row does not work as
//! configured.

use std::collections::HashSet;
use std::hash::Hash;

use super::ending::ModelErrorKind;

/// The number of turns with the same refusal, without a success between them, that make it permanent.
pub const LASTING_AFTER: usize = 3;

/// The maximum number of turns and of origins that are distinguished.
const REMEMBERED: usize = 32;

/// The recent refusals of one row. `T` identifies a turn and `O` its origin, as for a breaker.
#[derive(Debug)]
pub struct Refusals<T, O> {
    words: String,
    turns: HashSet<T>,
    origins: HashSet<O>,
    lasting: bool,
}

impl<T, O> Default for Refusals<T, O> {
    fn default() -> Self {
        Self { words: String::new(), turns: HashSet::new(), origins: HashSet::new(), lasting: false }
    }
}

impl<T: Eq + Hash, O: Eq + Hash> Refusals<T, O> {
    /// Records that a call of this turn failed with these words. Returns true if this makes the refusal permanent. A
    /// refused key or model needs a few turns; a refused request needs turns of several origins, because one person's
    /// requests may be invalid for every model.
    pub fn failed(&mut self, kind: ModelErrorKind, words: &str, turn: T, origin: O) -> bool {
        let origins = match kind {
            ModelErrorKind::Refused | ModelErrorKind::OutOfQuota | ModelErrorKind::Unsupported => 1,
            ModelErrorKind::BadRequest => 2,
            _ => return false,
        };
        if self.words != words {
            let lasting = self.lasting;
            *self = Self { words: words.to_owned(), lasting, ..Self::default() };
        }
        if self.turns.len() < REMEMBERED {
            self.turns.insert(turn);
        }
        if self.origins.len() < REMEMBERED {
            self.origins.insert(origin);
        }
        let lasting = self.turns.len() >= LASTING_AFTER && self.origins.len() >= origins;
        lasting && !std::mem::replace(&mut self.lasting, true)
    }

    /// Records a successful call. Returns true if this ends a permanent refusal.
    pub fn succeeded(&mut self) -> bool {
        std::mem::take(self).lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_of_a_few_turns_is_lasting_until_a_success() {
        let mut refusals = Refusals::default();
        let mut failed = |turn, words| refusals.failed(ModelErrorKind::Refused, words, turn, "ada");
        assert!(!failed(1, "no key") && !failed(1, "no key") && !failed(2, "no key"));
        assert!(!failed(3, "no model"), "another one begins anew");
        assert!(!failed(4, "no model") && failed(5, "no model"));
        assert!(!failed(6, "no model"), "it is told once");
        assert!(refusals.succeeded() && !refusals.succeeded());
    }

    #[test]
    fn what_one_person_asks_for_says_nothing_of_the_row() {
        let mut refusals = Refusals::default();
        let mut failed = |turn, who| refusals.failed(ModelErrorKind::BadRequest, "bad picture", turn, who);
        assert!(!failed(1, "ada") && !failed(2, "ada") && !failed(3, "ada"));
        assert!(failed(4, "ben"));
    }

    #[test]
    fn what_passes_and_what_the_prompt_caused_is_no_refusal() {
        let mut refusals = Refusals::default();
        for kind in [ModelErrorKind::Provider, ModelErrorKind::ContextOverflow, ModelErrorKind::Filtered] {
            assert!((0..9).all(|turn| !refusals.failed(kind, "no", turn, turn)), "{kind:?}");
        }
    }
}
