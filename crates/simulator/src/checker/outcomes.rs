//! Answers: one for each question, whole, in its place, in order, within the limits.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Promise, Question, Questions};
use crate::history::{Entry, Kind, Number, Seen, tokens};
use crate::models::{LONG_PARTS, marker};
use crate::process::WINDOW;

/// The questions of a member that wait in one place at the same time.
const LANE: usize = 8;
/// The time in which a lane answers its questions, in milliseconds.
const LANE_ENDS_WITHIN: u64 = 600_000;

/// A message of the bot as it is visible.
struct Visible {
    reply_to: Option<u64>,
    text: String,
    apology: bool,
}

/// The state of the channels at one time.
#[derive(Default)]
struct Channels {
    visible: BTreeMap<u64, Visible>,
    reacted: BTreeSet<u64>,
    /// The time at which the first part of each answer appeared.
    first: BTreeMap<Number, u64>,
    /// The time at which the message of each answer appeared, perhaps with a draft: members see it at that place from then on.
    stands: BTreeMap<Number, u64>,
    /// The time at which a model first received each question.
    prompted: BTreeMap<Number, u64>,
}

pub(super) fn judge(history: &[Entry], questions: &Questions, messages: u64) -> Vec<Finding> {
    let (mut channels, mut findings) = (Channels::default(), Vec::new());
    for Entry { at, seen } in history {
        match seen {
            Seen::Shown { message, place, reply_to, text, apology } => {
                let visible = Visible { reply_to: *reply_to, text: text.clone(), apology: *apology };
                channels.visible.insert(*message, visible);
                for number in BTreeSet::from_iter(tokens(text)) {
                    let Some(question) = questions.get(&number) else { continue };
                    findings.extend(channels.shown(question, *place, text, *at));
                }
                findings.extend(channels.apologised(questions, *reply_to, *at));
            }
            Seen::Hidden { message } => drop(channels.visible.remove(message)),
            Seen::Reacted { message } => drop(channels.reacted.insert(*message)),
            Seen::Prompted { number, .. } => drop(channels.prompted.entry(*number).or_insert(*at)),
            _ => {}
        }
    }
    let end = history.last().map_or(0, |entry| entry.at);
    for question in questions.values().filter(|question| question.deleted.is_none()) {
        findings.extend(channels.ended(questions, question, messages, end));
    }
    findings.extend(channels.over_limits(questions, messages));
    findings.extend(channels.out_of_order(questions));
    findings
}

impl Channels {
    /// A message that mentions a question appeared or changed.
    fn shown(&mut self, question: &Question, place: u64, text: &str, at: u64) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut find = |promise, why: String| findings.push(Finding { promise, number: question.number, at, why });
        if place != question.place {
            find(Promise::InPlace, format!("it was asked in place {} and shown in place {place}", question.place));
        }
        self.stands.entry(question.number).or_insert(at);
        for part in 0..LONG_PARTS {
            let marker = marker(question.number, part);
            if !text.contains(&marker) {
                continue;
            }
            if part == 0 {
                self.first.entry(question.number).or_insert(at);
            }
            let many = self.with(&marker);
            if many > 1 {
                find(Promise::Once, format!("part {part} of its answer is visible {many} times"));
            }
        }
        findings
    }

    fn with(&self, marker: &str) -> usize {
        self.visible.values().map(|visible| visible.text.matches(marker).count()).sum()
    }

    /// A reply appeared or changed.
    fn apologised(&self, questions: &Questions, reply_to: Option<u64>, at: u64) -> Option<Finding> {
        let message = reply_to?;
        let question = questions.values().find(|question| question.message == message)?;
        let apologies = self.visible.values().filter(|visible| visible.reply_to == reply_to && visible.apology).count();
        let why = format!("{apologies} apologies are visible");
        (apologies > 1).then_some(Finding { promise: Promise::Once, number: question.number, at, why })
    }

    /// Judges the end of a question that was not deleted.
    fn ended(&self, questions: &Questions, question: &Question, messages: u64, at: u64) -> Option<Finding> {
        let find = |promise, why: String| Some(Finding { promise, number: question.number, at, why });
        let parts = if question.kind == Kind::Long { LONG_PARTS } else { 1 };
        let shown = (0..parts).filter(|part| self.with(&marker(question.number, *part)) > 0).count() as u64;
        let replies = self.visible.values().filter(|visible| visible.reply_to == Some(question.message));
        // A request for approval names the question; apologies and notices do not.
        let spoken = replies.filter(|visible| tokens(&visible.text).is_empty()).count();
        if shown == parts || spoken == 1 {
            return None;
        }
        if spoken > 1 {
            return find(Promise::Once, format!("it has {spoken} replies that are no answers"));
        }
        if shown > 0 {
            return find(Promise::Whole, format!("{shown} of {parts} parts of its answer are visible"));
        }
        if !Self::may_be_refused(questions, question, messages) {
            let reacted = if self.reacted.contains(&question.message) { "only a reaction" } else { "nothing" };
            return find(Promise::Answered, format!("there is {reacted}"));
        }
        None
    }

    /// True if the limits may refuse a question: the member asked as many others near it. After a restart, questions that
    /// were not durable are offered again together.
    fn may_be_refused(questions: &Questions, question: &Question, messages: u64) -> bool {
        let window = crate::millis(WINDOW);
        let near = questions.values().filter(|other| {
            other.member == question.member
                && other.number != question.number
                && other.asked.abs_diff(question.asked) < 2 * window
        });
        let lane = questions.values().filter(|other| {
            (other.member, other.place) == (question.member, question.place)
                && other.number != question.number
                && other.asked.abs_diff(question.asked) < LANE_ENDS_WITHIN
        });
        near.count() as u64 >= messages || lane.count() >= LANE
    }

    /// Any questions that were asked and read by a model within one window were admitted within it.
    fn over_limits(&self, questions: &Questions, messages: u64) -> Vec<Finding> {
        let window = crate::millis(WINDOW);
        let answered: Vec<(&Question, u64)> = questions
            .values()
            .filter(|question| self.first.contains_key(&question.number))
            .filter_map(|question| Some((question, *self.prompted.get(&question.number)?)))
            .collect();
        let mut findings = Vec::new();
        for (first, _) in &answered {
            let within = answered.iter().filter(|(other, prompted)| {
                other.member == first.member && other.asked >= first.asked && *prompted < first.asked + window
            });
            let many = within.count() as u64;
            if many > messages {
                let why = format!("{many} questions from here on were admitted in one window of at most {messages}");
                findings.push(Finding { promise: Promise::WithinLimits, number: first.number, at: first.asked, why });
            }
        }
        findings
    }

    /// Answers of one lane appear in the order of their questions. A question that waits for an approval lets others pass.
    fn out_of_order(&self, questions: &Questions) -> Vec<Finding> {
        let mut newest: BTreeMap<(u64, u64), (Number, u64)> = BTreeMap::new();
        let mut findings = Vec::new();
        for question in questions.values().filter(|question| question.kind != Kind::Pay) {
            let Some(first) = self.stands.get(&question.number) else { continue };
            let last = newest.entry((question.member, question.place)).or_insert((question.number, *first));
            if last.1 > *first {
                let why = format!("its answer appeared before that of question {}", last.0);
                findings.push(Finding { promise: Promise::InOrder, number: question.number, at: *first, why });
            } else {
                *last = (question.number, *first);
            }
        }
        findings
    }
}
