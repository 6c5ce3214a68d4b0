//! The judge of recorded histories. It knows numbers and times, and nothing of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

/// An event of a history. Times are microseconds of one clock; a life is one process, a term its fencing token.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A life held the lease from the answer that granted it until it stopped, or until its term was over.
    Held { life: u64, from: u64, until: u64 },
    /// A life acquired the token of its term; the store confirmed it at this time.
    Acquired { life: u64, term: u64, at: u64 },
    /// The store confirmed a write of this term as durable.
    Wrote { term: u64, begun: u64, ended: u64 },
    /// The store refused a write of this term.
    Refused { term: u64 },
    /// A turn was acknowledged to the platform: its record is durable.
    Acknowledged { turn: u64 },
    /// An answer was posted; term 0 before the life had a token. The nonce of a turn is its number, so members see one message however often it is posted.
    Posted { term: u64, turn: u64, at: u64 },
    /// A member asked.
    Asked { turn: u64 },
}

/// The number of events of each kind, and of violations.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub terms: usize,
    pub acknowledged: usize,
    /// Refused writes of older terms.
    pub refused: usize,
    /// Pairs of lives that held the lease at the same time.
    pub held_twice: usize,
    /// Pairs of terms of which the older one acted after the newer one had.
    pub acted_twice: usize,
    /// Writes of an older term that the store accepted after a newer one was known.
    pub older_accepted: usize,
    /// Terms that two lives had.
    pub shared_terms: usize,
    /// Acknowledged turns without an answer.
    pub lost: usize,
    /// Other questions without an answer.
    pub unanswered: usize,
    /// Posts of an older term after a newer one was known: repeated with the same nonce, so harmless.
    pub late_posts: usize,
}

impl AddAssign for Verdict {
    fn add_assign(&mut self, other: Self) {
        self.terms += other.terms;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.held_twice += other.held_twice;
        self.acted_twice += other.acted_twice;
        self.older_accepted += other.older_accepted;
        self.shared_terms += other.shared_terms;
        self.lost += other.lost;
        self.unanswered += other.unanswered;
        self.late_posts += other.late_posts;
    }
}

impl Verdict {
    /// True if nothing was violated.
    pub fn is_clean(&self) -> bool {
        let Self { held_twice, acted_twice, older_accepted, shared_terms, lost, unanswered, .. } = self;
        [held_twice, acted_twice, older_accepted, shared_terms, lost, unanswered].iter().all(|count| **count == 0)
    }
}

/// Judges a history.
pub fn judge(events: &[Event]) -> Verdict {
    let known = first_known(events);
    let newer = |term: u64, at: u64| known.range(term + 1..).find(|(_, first)| **first < at).map(|(newer, _)| *newer);
    let (mut acknowledged, mut answered, mut asked) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut lives, mut pairs, mut verdict) = (BTreeMap::new(), BTreeSet::new(), Verdict::default());
    for event in events {
        match *event {
            Event::Held { .. } => {}
            Event::Refused { term } => verdict.refused += usize::from(known.range(term + 1..).next().is_some()),
            Event::Acquired { life, term, .. } => {
                verdict.shared_terms += usize::from(*lives.entry(term).or_insert(life) != life);
            }
            Event::Wrote { term, begun, .. } => {
                if let Some(newer) = newer(term, begun) {
                    verdict.older_accepted += 1;
                    pairs.insert((term, newer));
                }
            }
            Event::Acknowledged { turn } => drop(acknowledged.insert(turn)),
            Event::Posted { term, turn, at } => {
                answered.insert(turn);
                verdict.late_posts += usize::from(term > 0 && newer(term, at).is_some());
            }
            Event::Asked { turn } => drop(asked.insert(turn)),
        }
    }
    verdict.terms = known.len();
    verdict.acknowledged = acknowledged.len();
    verdict.held_twice = overlaps(events);
    verdict.acted_twice = pairs.len();
    verdict.lost = acknowledged.difference(&answered).count();
    verdict.unanswered = asked.iter().filter(|turn| !acknowledged.contains(turn) && !answered.contains(turn)).count();
    verdict
}

/// Returns the time at which the store certainly knew each term.
fn first_known(events: &[Event]) -> BTreeMap<u64, u64> {
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        let (Event::Acquired { term, at, .. } | Event::Wrote { term, ended: at, .. }) = *event else { continue };
        let first = known.entry(term).or_insert(at);
        *first = (*first).min(at);
    }
    known
}

/// Returns the number of pairs of lives that held the lease at the same time.
fn overlaps(events: &[Event]) -> usize {
    let held = |event: &Event| match *event {
        Event::Held { life, from, until } if from < until => Some((from, until, life)),
        _ => None,
    };
    let mut terms: Vec<(u64, u64, u64)> = events.iter().filter_map(held).collect();
    terms.sort_unstable();
    let pairs = terms.iter().enumerate().flat_map(|(at, one)| terms[at + 1..].iter().map(move |other| (one, other)));
    pairs.filter(|(one, other)| other.0 < one.1 && one.2 != other.2).count()
}

#[test]
fn the_judge_of_histories_finds_each_violation() {
    let good = [
        Event::Asked { turn: 1 },
        Event::Asked { turn: 2 },
        Event::Held { life: 1, from: 0, until: 100 },
        Event::Acquired { life: 1, term: 10, at: 5 },
        Event::Wrote { term: 10, begun: 6, ended: 8 },
        Event::Acknowledged { turn: 1 },
        Event::Posted { term: 10, turn: 1, at: 9 },
        Event::Held { life: 2, from: 100, until: 200 },
        Event::Acquired { life: 2, term: 11, at: 105 },
        Event::Wrote { term: 11, begun: 106, ended: 108 },
        Event::Posted { term: 11, turn: 2, at: 109 },
    ];
    let fine = Verdict { terms: 2, acknowledged: 1, ..Verdict::default() };
    assert_eq!(judge(&good), fine);
    let with = |event| judge(&[&good[..], &[event]].concat());
    assert_eq!(with(Event::Refused { term: 10 }), Verdict { refused: 1, ..fine });
    assert_eq!(with(Event::Held { life: 3, from: 99, until: 100 }), Verdict { held_twice: 1, ..fine });
    assert_eq!(with(Event::Acquired { life: 3, term: 11, at: 150 }), Verdict { shared_terms: 1, ..fine });
    let older = Event::Wrote { term: 10, begun: 106, ended: 107 };
    assert_eq!(with(older), Verdict { older_accepted: 1, acted_twice: 1, ..fine });
    assert_eq!(with(Event::Wrote { term: 10, begun: 104, ended: 120 }), fine, "the order of both is unknown");
    assert_eq!(with(Event::Acknowledged { turn: 3 }), Verdict { acknowledged: 2, lost: 1, ..fine });
    assert_eq!(with(Event::Asked { turn: 4 }), Verdict { unanswered: 1, ..fine });
    assert_eq!(with(Event::Posted { term: 10, turn: 2, at: 150 }), Verdict { late_posts: 1, ..fine });
}
