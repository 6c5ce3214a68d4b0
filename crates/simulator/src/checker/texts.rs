//! Texts: prompts keep to one conversation, and a deleted conversation is in no later prompt and not stored.

use std::collections::BTreeSet;

use super::{Finding, Promise, Questions};
use crate::history::{Entry, Number, Seen};

/// The words with which the bot says that a deletion is not complete, or was refused because the member's earlier commands
/// have not ended.
const NOT_DONE: [&str; 2] = ["again", "Nothing was done"];

/// A deletion that its member was told of.
struct Deletion {
    ran: u64,
    done: u64,
    member: u64,
    /// The place of a new conversation; `None` for all places.
    place: Option<u64>,
}

pub(super) fn judge(history: &[Entry], questions: &Questions) -> Vec<Finding> {
    let deletions = deletions(history);
    let mut findings = Vec::new();
    for Entry { at, seen } in history {
        match seen {
            Seen::Prompted { number, all } => {
                for read in all.iter().collect::<BTreeSet<_>>() {
                    findings.extend(prompted(questions, &deletions, *number, *read, *at));
                }
            }
            Seen::Over { stored } => {
                for number in stored {
                    findings.extend(kept(questions, &deletions, *number, *at));
                }
            }
            _ => {}
        }
    }
    findings
}

fn deletions(history: &[Entry]) -> Vec<Deletion> {
    let ran = history.iter().filter_map(|Entry { at, seen }| match seen {
        Seen::Ran { callback, name: "forget", member, .. } => Some((*callback, *at, *member, None)),
        Seen::Ran { callback, name: "new", member, place } => Some((*callback, *at, *member, Some(*place))),
        _ => None,
    });
    let done = |wanted: u64| {
        let complete = |seen: &Seen| match seen {
            Seen::Responded { callback, text } => {
                *callback == wanted && !NOT_DONE.iter().any(|words| text.contains(words))
            }
            _ => false,
        };
        history.iter().find(|entry| complete(&entry.seen)).map(|entry| entry.at)
    };
    ran.filter_map(|(callback, ran, member, place)| Some(Deletion { ran, done: done(callback)?, member, place }))
        .collect()
}

fn prompted(questions: &Questions, deletions: &[Deletion], number: Number, read: Number, at: u64) -> Option<Finding> {
    let (question, earlier) = (questions.get(&number)?, questions.get(&read)?);
    if (question.member, question.place) != (earlier.member, earlier.place) {
        let why = format!("its prompt contains question {read} of another conversation");
        return Some(Finding { promise: Promise::Apart, number, at, why });
    }
    let deleted = deletions.iter().any(|deletion| {
        deletion.member == question.member
            && deletion.place.is_none_or(|place| place == question.place)
            && earlier.asked < deletion.ran
            && question.asked > deletion.done
    });
    let why = format!("its prompt contains question {read}, which was deleted before");
    deleted.then_some(Finding { promise: Promise::Forgotten, number, at, why })
}

fn kept(questions: &Questions, deletions: &[Deletion], number: Number, at: u64) -> Option<Finding> {
    let question = questions.get(&number)?;
    let deleted = deletions.iter().any(|deletion| {
        deletion.member == question.member && deletion.place.is_none() && question.asked < deletion.ran
    });
    let why = "it is stored, although its member deleted all".to_owned();
    deleted.then_some(Finding { promise: Promise::NotStored, number, at, why })
}
