//! The delivery of one answer to a platform that refuses it: what stands, and what is tried next.
//!
//! An answer has forms, from the best to the least: the whole of it, its words without cards and files, an apology, a reaction. Until
//! it was refused [`BESIDE_AFTER`] times the whole is tried, and the answers of its place wait behind it. From then on it goes on
//! beside them, in rounds; each round tries the forms that are due in this order and ends with the first that the platform takes, so
//! the whole answer comes when the platform recovers. A form that the platform refuses for good is not tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// The refusals after which the next answer of the place does not wait any longer.
pub const BESIDE_AFTER: u32 = 4;
/// The time after which two refusals are enough for that: a platform that refuses slowly.
pub const BESIDE_WITHIN: Duration = Duration::from_secs(10);
/// The refusal at which the log names the answer that is delayed.
pub const WARN_AT: u32 = 2;
/// The shortest time for which an answer is refused before an apology takes its place.
const APOLOGISE_NOT_BEFORE: Duration = Duration::from_secs(10);

/// The refusals of one answer that may pass, as its record keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// How many there were.
    pub many: u32,
    /// When the first one came.
    pub since: Timestamp,
}

/// A form of an answer. Those that come later say less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Form {
    /// All of it.
    #[default]
    Whole,
    /// Its words, without cards and files.
    Words,
    /// A sentence that the answer could not be posted.
    Apology,
    /// A reaction to the question: no text was taken.
    Reaction,
}

impl Form {
    /// The member has the answer.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Whole | Self::Words)
    }
}

/// How a platform refused one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The same request may be taken later.
    Passing,
    /// The same request is refused again.
    Lasting,
}

/// What stands of a delivery.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// The refusals so far that may pass.
    pub refused: u32,
    /// The time since the first of them.
    pub refused_for: Duration,
    /// The answer has cards or files, and makes sense without them.
    pub has_extras: bool,
    /// A member waits for a sign that there is no answer; true from the moment on at which it is due.
    pub sign_due: Option<bool>,
    /// It is an answer, and no apology itself.
    pub is_answer: bool,
    /// The question is a message that can be reacted to.
    pub has_message: bool,
}

/// True if the answers behind one that was refused so often, for so long, go on without it. `patience` is the number of refusals
/// that they wait for.
#[must_use]
pub fn lets_pass(refused: u32, refused_for: Duration, patience: u32) -> bool {
    refused >= patience || (refused >= 2 && refused_for >= BESIDE_WITHIN)
}

impl Standing {
    /// Returns the form to try after this one was refused; none ends the round.
    #[must_use]
    pub fn after(&self, form: Form, refusal: Refusal) -> Option<Form> {
        let lasting = refusal == Refusal::Lasting;
        let worn_out = lets_pass(self.refused, self.refused_for, BESIDE_AFTER);
        let due = worn_out && self.refused_for >= APOLOGISE_NOT_BEFORE;
        let is_told = self.sign_due.is_some_and(|sign_due| lasting || (sign_due && due));
        let may = |next: Form| match next {
            Form::Whole => false,
            Form::Words => self.has_extras && (lasting || worn_out),
            Form::Apology => self.is_answer && is_told,
            Form::Reaction => self.has_message && is_told,
        };
        [Form::Words, Form::Apology, Form::Reaction].into_iter().find(|next| *next > form && may(*next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Standing = Standing {
        refused: 1,
        refused_for: Duration::ZERO,
        has_extras: true,
        sign_due: Some(false),
        is_answer: true,
        has_message: true,
    };

    /// The forms of one round in which everything is refused like this.
    fn round(standing: &Standing, refusal: Refusal) -> Vec<Form> {
        std::iter::successors(Some(Form::Whole), |form| standing.after(*form, refusal)).collect()
    }

    #[test]
    fn an_answer_that_is_refused_a_few_times_is_tried_whole_and_keeps_its_place() {
        for refused in 1..BESIDE_AFTER {
            let standing = Standing { refused, ..FRESH };
            assert!(!lets_pass(refused, standing.refused_for, BESIDE_AFTER));
            assert_eq!(round(&standing, Refusal::Passing), [Form::Whole]);
        }
        assert!(lets_pass(2, BESIDE_WITHIN, BESIDE_AFTER), "two slow refusals are enough");
        assert!(!lets_pass(1, BESIDE_WITHIN, BESIDE_AFTER), "one is not");
    }

    #[test]
    fn from_the_fourth_refusal_on_words_are_tried_and_at_the_deadline_less() {
        let beside = Standing { refused: BESIDE_AFTER, refused_for: Duration::from_secs(3), ..FRESH };
        assert!(lets_pass(beside.refused, beside.refused_for, BESIDE_AFTER));
        assert_eq!(round(&beside, Refusal::Passing), [Form::Whole, Form::Words]);
        let plain = Standing { has_extras: false, ..beside };
        assert_eq!(round(&plain, Refusal::Passing), [Form::Whole]);
        let late = Standing { sign_due: Some(true), ..plain };
        assert_eq!(round(&late, Refusal::Passing), [Form::Whole], "an outage of seconds costs no answer");
        let late = Standing { refused_for: Duration::from_secs(10), ..late };
        assert_eq!(round(&late, Refusal::Passing), [Form::Whole, Form::Apology, Form::Reaction]);
        let of_a_timer = Standing { has_message: false, ..late };
        assert_eq!(round(&of_a_timer, Refusal::Passing), [Form::Whole, Form::Apology]);
        let apology = Standing { is_answer: false, ..late };
        assert_eq!(round(&apology, Refusal::Passing), [Form::Whole, Form::Reaction]);
        let unasked = Standing { sign_due: None, ..late };
        assert_eq!(round(&unasked, Refusal::Passing), [Form::Whole]);
    }

    #[test]
    fn what_is_refused_for_good_gives_way_to_less_at_once() {
        let once = Standing { refused: 0, ..FRESH };
        assert_eq!(round(&once, Refusal::Lasting), [Form::Whole, Form::Words, Form::Apology, Form::Reaction]);
        let unasked = Standing { sign_due: None, ..once };
        assert_eq!(round(&unasked, Refusal::Lasting), [Form::Whole, Form::Words]);
        assert!(Form::Words.answers() && !Form::Apology.answers());
    }
}
