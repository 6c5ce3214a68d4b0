//! The delivery of one answer to a platform that refuses it: its current state, and which form to try next.
//!
//! An answer has four forms, from best to least: complete, text only, apology, reaction. Until [`BESIDE_AFTER`]
//! refusals, the complete form is retried and later answers of the same place wait. After that, later answers go
//! ahead, and this one is retried in rounds. A round tries the forms that are due, in this order, until the platform
//! accepts one; so the complete answer arrives when the platform recovers. A permanently refused form is not retried.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// The number of refusals after which later answers of the place no longer wait.
pub const BESIDE_AFTER: u32 = 4;
/// The time after which two refusals suffice, for a platform that refuses slowly.
pub const BESIDE_WITHIN: Duration = Duration::from_secs(10);
/// The refusal at which the log reports the delayed answer.
pub const WARN_AT: u32 = 2;
/// The shortest time of refusals before an apology replaces the answer.
const APOLOGISE_NOT_BEFORE: Duration = Duration::from_secs(10);

/// The temporary refusals of one answer, as stored in its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalRecord {
    /// Their number.
    pub many: u32,
    /// The time of the first.
    pub since: Timestamp,
}

/// A form of an answer. Later variants say less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Form {
    /// The complete answer.
    #[default]
    Whole,
    /// The text, without cards and files.
    Words,
    /// An apology that the answer could not be posted.
    Apology,
    /// A reaction to the question, because no text was accepted.
    Reaction,
}

impl Form {
    /// True if this form gives the member the answer.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Whole | Self::Words)
    }
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Temporary: the same request may succeed later.
    Passing,
    /// Permanent: the same request will be refused again.
    Lasting,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// The number of temporary refusals so far.
    pub refused: u32,
    /// The time since the first of them.
    pub refused_for: Duration,
    /// True if the answer has cards or files, and is meaningful without them.
    pub has_extras: bool,
    /// True if an apology or reaction is due now, false if it is due later. `None` if the member gets neither.
    pub sign_due: Option<bool>,
    /// True if this is an answer, not an apology.
    pub is_answer: bool,
    /// True if the question is a message that accepts reactions.
    pub has_message: bool,
}

/// True if later answers go ahead of one with so many refusals over so long a time. `patience` is the number of
/// refusals that they wait for.
#[must_use]
pub fn lets_pass(refused: u32, refused_for: Duration, patience: u32) -> bool {
    refused >= patience || (refused >= 2 && refused_for >= BESIDE_WITHIN)
}

impl Standing {
    /// Returns the form to try after this one was refused. `None` ends the round.
    #[must_use]
    pub fn after(&self, form: Form, refusal: RefusalKind) -> Option<Form> {
        let lasting = refusal == RefusalKind::Lasting;
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

    /// Returns the forms of one round in which each is refused like this.
    fn round(standing: &Standing, refusal: RefusalKind) -> Vec<Form> {
        std::iter::successors(Some(Form::Whole), |form| standing.after(*form, refusal)).collect()
    }

    #[test]
    fn an_answer_that_is_refused_a_few_times_is_tried_whole_and_keeps_its_place() {
        for refused in 1..BESIDE_AFTER {
            let standing = Standing { refused, ..FRESH };
            assert!(!lets_pass(refused, standing.refused_for, BESIDE_AFTER));
            assert_eq!(round(&standing, RefusalKind::Passing), [Form::Whole]);
        }
        assert!(lets_pass(2, BESIDE_WITHIN, BESIDE_AFTER), "two slow refusals are enough");
        assert!(!lets_pass(1, BESIDE_WITHIN, BESIDE_AFTER), "one is not");
    }

    #[test]
    fn from_the_fourth_refusal_on_words_are_tried_and_at_the_deadline_less() {
        let beside = Standing { refused: BESIDE_AFTER, refused_for: Duration::from_secs(3), ..FRESH };
        assert!(lets_pass(beside.refused, beside.refused_for, BESIDE_AFTER));
        assert_eq!(round(&beside, RefusalKind::Passing), [Form::Whole, Form::Words]);
        let plain = Standing { has_extras: false, ..beside };
        assert_eq!(round(&plain, RefusalKind::Passing), [Form::Whole]);
        let late = Standing { sign_due: Some(true), ..plain };
        assert_eq!(round(&late, RefusalKind::Passing), [Form::Whole], "an outage of seconds costs no answer");
        let late = Standing { refused_for: Duration::from_secs(10), ..late };
        assert_eq!(round(&late, RefusalKind::Passing), [Form::Whole, Form::Apology, Form::Reaction]);
        let of_a_timer = Standing { has_message: false, ..late };
        assert_eq!(round(&of_a_timer, RefusalKind::Passing), [Form::Whole, Form::Apology]);
        let apology = Standing { is_answer: false, ..late };
        assert_eq!(round(&apology, RefusalKind::Passing), [Form::Whole, Form::Reaction]);
        let unasked = Standing { sign_due: None, ..late };
        assert_eq!(round(&unasked, RefusalKind::Passing), [Form::Whole]);
    }

    #[test]
    fn what_is_refused_for_good_gives_way_to_less_at_once() {
        let once = Standing { refused: 0, ..FRESH };
        assert_eq!(round(&once, RefusalKind::Lasting), [Form::Whole, Form::Words, Form::Apology, Form::Reaction]);
        let unasked = Standing { sign_due: None, ..once };
        assert_eq!(round(&unasked, RefusalKind::Lasting), [Form::Whole, Form::Words]);
        assert!(Form::Words.answers() && !Form::Apology.answers());
    }
}
