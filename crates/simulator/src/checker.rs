//! The judge of a life. It knows the promises (`README.md`, "What it promises") and the history of what members, models
//! and tool servers saw, and nothing of the program.

mod outcomes;
mod texts;
mod use_of_tools;

use std::collections::BTreeMap;
use std::fmt;

use super::history::{Entry, Kind, Number, Seen};

/// The promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Each question that stays has a visible answer, apology or notice at the end, or a reaction if limits refused it.
    Answered,
    /// No part of an answer is visible twice, and no question has two apologies.
    Once,
    /// An answer is complete: all of its parts are visible.
    Whole,
    /// A question is answered in its own place.
    InPlace,
    /// A call with a side effect runs at most once.
    CalledOnce,
    /// A call that needs an approval runs only after the asking member approved it.
    Approved,
    /// No more questions of a member are answered in a window than the limit permits.
    WithinLimits,
    /// A prompt contains the conversation of one member in one place.
    Apart,
    /// A deleted conversation is in no later prompt.
    Forgotten,
    /// A deleted conversation is not stored.
    NotStored,
    /// Questions of one member in one place are answered in their order, while no actor fails and no process ends.
    InOrder,
}

/// A violation of a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The promise.
    pub promise: Promise,
    /// The question.
    pub number: Number,
    /// The time in milliseconds since the beginning of the life.
    pub at: u64,
    /// The contradiction.
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: question {} at {} ms: {}", self.promise, self.number, self.at, self.why)
    }
}

/// A question and the times of its events.
#[derive(Debug, Clone)]
struct Question {
    number: Number,
    kind: Kind,
    member: u64,
    place: u64,
    message: u64,
    asked: u64,
    deleted: Option<u64>,
}

/// The questions of a history by number.
type Questions = BTreeMap<Number, Question>;

/// The judgement of a life.
#[derive(Debug)]
pub struct Verdict {
    /// The number of questions of which something is promised.
    pub judged: u64,
    /// The violations.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// True if a question has no whole answer.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.findings.iter().any(|finding| matches!(finding.promise, Promise::Answered | Promise::Whole))
    }
}

/// Judges a life. `messages` is the number of questions of a member that are admitted in a window; `failures` is true if an
/// actor failed or a process ended.
#[must_use]
pub fn judge(history: &[Entry], messages: u64, failures: bool) -> Verdict {
    let questions = questions(history);
    let mut findings = outcomes::judge(history, &questions, messages);
    findings.extend(use_of_tools::judge(history, &questions));
    findings.extend(texts::judge(history, &questions));
    let kept = kept_since(history);
    findings.retain(|finding| !failures || finding.promise != Promise::InOrder);
    findings.retain(|finding| questions.get(&finding.number).is_some_and(|question| question.asked >= kept));
    let judged = questions.values().filter(|question| question.asked >= kept && question.deleted.is_none());
    Verdict { judged: judged.count() as u64, findings }
}

/// Returns the time of the last end of a process with a degraded store. Such an end loses what only memory held, as the
/// guides say, so nothing is promised of what came before.
fn kept_since(history: &[Entry]) -> u64 {
    let lossy = history.iter().filter(|entry| matches!(entry.seen, Seen::Ended { loses: true, .. }));
    lossy.map(|entry| entry.at).max().unwrap_or(0)
}

fn questions(history: &[Entry]) -> Questions {
    let mut questions = Questions::new();
    for Entry { at, seen } in history {
        match seen {
            Seen::Asked { number, kind, member, place, message } => {
                let question = Question {
                    number: *number,
                    kind: *kind,
                    member: *member,
                    place: *place,
                    message: *message,
                    asked: *at,
                    deleted: None,
                };
                questions.insert(*number, question);
            }
            Seen::Deleted { number } => {
                if let Some(question) = questions.get_mut(number) {
                    question.deleted = Some(*at);
                }
            }
            _ => {}
        }
    }
    questions
}
