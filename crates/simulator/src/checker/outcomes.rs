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

/// The time that a write may wait for the commit that it is part of, in milliseconds.
const GATHERED_FOR: u64 = 20;

/// The failed posts in a place after which an answer may be passed by later ones.
const PASSED_AFTER: usize = 2;

/// The state of the channels at one time.
#[derive(Default)]
struct Channels {
    visible: BTreeMap<u64, Visible>,
    /// The time of the reaction to each message that has one.
    reacted: BTreeMap<u64, u64>,
    /// The time at which the first part of each answer appeared.
    first: BTreeMap<Number, u64>,
    /// The time at which the message of each answer appeared, perhaps with a draft: members see it at that place from then on.
    stands: BTreeMap<Number, u64>,
    /// The times at which models received each question.
    prompted: BTreeMap<Number, Vec<u64>>,
    /// The times at which sessions of the platform began.
    sessions: Vec<u64>,
    /// The times at which each question was delivered.
    delivered: BTreeMap<Number, Vec<u64>>,
    /// The places and times of posts that failed.
    unposted: Vec<(u64, u64)>,
    /// The times at which processes ended.
    ends: Vec<u64>,
    /// The times, to the end of a process, in which no commit was accepted.
    unsaved: Vec<(u64, u64)>,
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
                if !apology {
                    channels.replied(questions, *reply_to, *at);
                }
                findings.extend(channels.apologised(questions, *reply_to, *at));
            }
            Seen::Hidden { message } => drop(channels.visible.remove(message)),
            Seen::Ended { under_way, .. } => {
                channels.ends.push(*at);
                channels.unsaved.extend(under_way.map(|since| (since, *at)));
            }
            Seen::NewSession => channels.sessions.push(*at),
            Seen::Delivered { number } => channels.delivered.entry(*number).or_default().push(*at),
            Seen::Unposted { place } => channels.unposted.push((*place, *at)),
            Seen::Reacted { message } => drop(channels.reacted.insert(*message, *at)),
            Seen::Prompted { number, .. } => channels.prompted.entry(*number).or_default().push(*at),
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

    /// A reply that is no apology appeared or changed. It may show the work on an answer before a word of it.
    fn replied(&mut self, questions: &Questions, reply_to: Option<u64>, at: u64) {
        let of = |question: &&Question| reply_to == Some(question.message);
        if let Some(question) = questions.values().find(of) {
            self.stands.entry(question.number).or_insert(at);
        }
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
        if !self.may_be_refused(questions, question, messages) {
            let reacted = if self.reacted.contains_key(&question.message) { "only a reaction" } else { "nothing" };
            return find(Promise::Answered, format!("there is {reacted}"));
        }
        None
    }

    /// True if the limits may refuse a question: the member asked as many others near it or near its refusal, or a model
    /// received them then. After a restart, open questions are admitted again together.
    fn may_be_refused(&self, questions: &Questions, question: &Question, messages: u64) -> bool {
        let window = crate::millis(WINDOW);
        let refused = self.reacted.get(&question.message).copied();
        let is_near =
            |at: u64| [Some(question.asked), refused].into_iter().flatten().any(|time| at.abs_diff(time) < 2 * window);
        let near = questions.values().filter(|other| {
            other.member == question.member
                && other.number != question.number
                && (is_near(other.asked)
                    || self.prompted.get(&other.number).into_iter().flatten().any(|at| is_near(*at)))
        });
        let lane = questions.values().filter(|other| {
            (other.member, other.place) == (question.member, question.place)
                && other.number != question.number
                && other.asked.abs_diff(question.asked) < LANE_ENDS_WITHIN
        });
        // The part of a turn that follows a decision counts as a message of its own.
        let units: u64 = near.map(|other| 1 + u64::from(other.kind == Kind::Pay)).sum();
        units >= messages || lane.count() >= LANE
    }

    /// Any questions that were asked and read by a model within one window were admitted within it. An apology is not
    /// charged, also if it replaced a draft. The reservations of a commit that was under way when a process ended are
    /// lost.
    fn over_limits(&self, questions: &Questions, messages: u64) -> Vec<Finding> {
        let window = crate::millis(WINDOW);
        let answered: Vec<(&Question, u64)> = questions
            .values()
            .filter(|question| self.first.contains_key(&question.number) && !self.is_apologised(question))
            .filter_map(|question| Some((question, self.answering_prompt(question.number)?)))
            .filter(|(question, prompted)| !self.is_unsaved(question.asked, *prompted))
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

    /// True if a process ended before it could store what happened then.
    fn is_unsaved(&self, from: u64, to: u64) -> bool {
        self.unsaved.iter().any(|(since, end)| from <= *end && to >= since.saturating_sub(GATHERED_FOR))
    }

    /// The first prompt of the process that answered a question. An earlier one may have ended before its reservation was
    /// durable; the question is then admitted again.
    fn answering_prompt(&self, number: Number) -> Option<u64> {
        let (prompts, shown) = (self.prompted.get(&number)?, *self.first.get(&number)?);
        let same_process = |at: &u64| !self.ends.iter().any(|end| (*at..=shown).contains(end));
        prompts.iter().copied().find(same_process)
    }

    fn is_apologised(&self, question: &Question) -> bool {
        let mut replies = self.visible.values().filter(|visible| visible.reply_to == Some(question.message));
        replies.any(|visible| tokens(&visible.text).is_empty())
    }

    /// True if the process that began a session had the question from an earlier one. A process that ended since may have
    /// lost it.
    fn is_known(&self, number: Number, began: u64) -> bool {
        let has_ended = |since: u64| self.ends.iter().any(|end| (since..=began).contains(end));
        self.delivered.get(&number).into_iter().flatten().any(|at| *at < began && !has_ended(*at))
    }

    /// Answers of one lane appear in the order of their questions. A question that waits for an approval lets others
    /// pass, and so does one that a lost session did not deliver, until it is read back, and one whose posts fail
    /// repeatedly.
    fn out_of_order(&self, questions: &Questions) -> Vec<Finding> {
        let mut newest: BTreeMap<(u64, u64), (Number, u64)> = BTreeMap::new();
        let read_back = |earlier: Number, until: u64| {
            let asked = questions.get(&earlier).map_or(0, |question| question.asked);
            let sessions = self.sessions.iter().filter(|began| (asked..=until).contains(began));
            sessions.into_iter().any(|began| !self.is_known(earlier, *began))
        };
        let is_passed = |earlier: Number, (place, until): (u64, u64)| {
            let asked = questions.get(&earlier).map_or(0, |question| question.asked);
            let failed = self.unposted.iter().filter(|(at, time)| *at == place && (asked..=until).contains(time));
            failed.count() >= PASSED_AFTER
        };
        let mut findings = Vec::new();
        for question in questions.values().filter(|question| question.kind != Kind::Pay) {
            let Some(first) = self.stands.get(&question.number) else { continue };
            let last = newest.entry((question.member, question.place)).or_insert((question.number, *first));
            if last.1 > *first && !read_back(last.0, *first) && !is_passed(last.0, (question.place, *first)) {
                let why = format!("its answer appeared before that of question {}", last.0);
                findings.push(Finding { promise: Promise::InOrder, number: question.number, at: *first, why });
            } else {
                *last = (question.number, *first);
            }
        }
        findings
    }
}
