//! Calls with side effects: at most once, and only after an approval.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Promise, Questions};
use crate::history::{Entry, Kind, Seen};

pub(super) fn judge(history: &[Entry], questions: &Questions) -> Vec<Finding> {
    let (mut approved, mut called, mut findings) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for Entry { at, seen } in history {
        match seen {
            Seen::Clicked { number, member, approves: true } => {
                if questions.get(number).is_some_and(|question| question.member == *member) {
                    approved.insert(*number);
                }
            }
            Seen::Called { number, kind: Kind::Pay } => {
                let many = called.entry(*number).or_insert(0_u32);
                *many += 1;
                let mut find = |promise, why: String| {
                    findings.push(Finding { promise, number: *number, at: *at, why });
                };
                if !approved.contains(number) {
                    find(Promise::Approved, "its call ran without the approval of its member".to_owned());
                }
                if *many > 1 {
                    find(Promise::CalledOnce, format!("its call ran {many} times"));
                }
            }
            _ => {}
        }
    }
    findings
}
