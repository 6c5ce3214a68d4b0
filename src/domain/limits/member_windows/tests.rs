use std::sync::Arc;

use super::*;
use crate::domain::ids::{Door, TurnId};
use crate::domain::limits::{Limits, Reservation};

const WINDOW: Duration = Duration::from_secs(60);
const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn member(number: usize) -> Member {
    Member::new(format!("5:{number}"))
}

fn turn(number: usize) -> TurnId {
    TurnId::new(Door::new("d"), number.to_string())
}

fn reserve(who: &Member, number: usize) -> Request {
    let limits = Limits { messages: 2, tokens: 1_000 };
    let lease = Duration::from_secs(5);
    let step = Step::Reserve(Reservation { turn: turn(number), tokens: 10, lease, limits, exempt: false });
    Request { member: who.clone(), window: WINDOW, step }
}

fn settle(who: &Member, number: usize, tokens: u64) -> Request {
    Request { member: who.clone(), window: WINDOW, step: Step::Settle(turn(number), Some(tokens)) }
}

fn elsewhere(at: Timestamp, tokens: u64, number: usize) -> Entry {
    let turn = Some(Arc::from(keys::limit_turn(&turn(number))));
    Entry { at, tokens, turn, message: true, lease: Some(Timestamp(at.0 + 5_000)) }
}

#[test]
fn changes_wait_until_they_are_kept() {
    let mut book = MemberWindows::default();
    let who = member(7);
    assert!(!book.has_changes() && book.changes().is_empty());
    assert_eq!(book.decide(NOW, &reserve(&who, 1)), Answer::Admitted);
    let first = book.changes_of(&who).unwrap();
    assert_eq!((first.turns.len(), first.turns[0].1.as_ref().map(|entry| entry.tokens)), (1, Some(10)));
    book.decide(NOW, &settle(&who, 1, 70));
    book.decide(NOW, &settle(&who, 1, 99));
    book.kept(first.through);
    let [changes] = &book.changes()[..] else { panic!() };
    assert_eq!(changes.turns[0].1.as_ref().map(|entry| (entry.tokens, entry.lease)), Some((70, None)));
    assert_eq!(book.changed().len(), 1);
    book.kept_of(&who, changes.through);
    assert!(!book.has_changes() && book.changed().is_empty());
    book.decide(NOW, &reserve(&who, 1));
    assert!(!book.has_changes(), "what changes nothing needs no keeping");
}

#[test]
fn what_a_server_told_is_gone_on_with_and_own_changes_stay() {
    let mut book = MemberWindows::default();
    let who = member(7);
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]));
    assert!(!book.has_changes());
    book.decide(NOW, &settle(&who, 1, 50));
    assert_eq!(book.decide(NOW, &reserve(&who, 2)), Answer::Admitted);
    assert!(matches!(book.decide(NOW, &reserve(&who, 3)), Answer::Refused(_)), "two are allowed");
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]));
    let changes = book.changes_of(&who).unwrap();
    let tokens: Vec<_> = changes.turns.iter().map(|(_, entry)| entry.as_ref().map(|entry| entry.tokens)).collect();
    assert_eq!(tokens, [Some(50), Some(10)]);
    assert!(matches!(book.decide(NOW, &reserve(&who, 3)), Answer::Refused(_)));
}

#[test]
fn a_refusal_decided_here_is_told_where_the_question_may_have_arrived() {
    let mut book = MemberWindows::default();
    let who = member(7);
    let full = WindowLog::of(vec![elsewhere(NOW, 30, 1), elsewhere(NOW, 30, 2)]);
    book.learned(NOW, &who, WINDOW, full);
    assert!(matches!(book.decide(NOW, &reserve(&who, 3)), Answer::Refused(_)));
    assert!(!book.has_changes());
    book.tell_of(&reserve(&who, 3));
    let turns = book.changes_of(&who).unwrap().turns;
    assert_eq!(turns, [(keys::limit_turn(&turn(3)).into_boxed_str(), None)]);
}

#[test]
fn what_has_aged_out_is_forgotten_and_the_number_is_bounded() {
    let mut book = MemberWindows::default();
    for number in 0..MEMBERS_MAX + 10 {
        book.decide(NOW, &reserve(&member(number), number));
        assert!(book.pages.len() <= MEMBERS_MAX);
    }
    assert!(!book.pages.contains_key(&member(0)) && book.pages.contains_key(&member(MEMBERS_MAX)));
    assert_eq!(book.changes().len(), book.unkept);
    book.kept(book.last());
    book.tidy(Timestamp(NOW.0 + 59_999));
    assert!(!book.pages.is_empty());
    book.tidy(Timestamp(NOW.0 + 60_000));
    assert!(book.pages.is_empty());
    for number in 0..1_000 {
        let at = Timestamp(NOW.0 + 60_000 * (number as u64 + 1));
        book.decide(at, &reserve(&member(number), number));
        book.kept(book.last());
        assert!(book.pages.len() <= TIDY_FROM);
    }
}

#[test]
fn reading_leaves_no_trace() {
    let mut book = MemberWindows::default();
    let read = Request { member: member(7), window: WINDOW, step: Step::Read(Limits { messages: 2, tokens: 10 }) };
    assert!(matches!(book.decide(NOW, &read), Answer::Used(used) if used.messages == 0 && used.wait.is_none()));
    assert!(book.pages.is_empty());
    book.load(vec![(member(7), WindowLog::of(vec![elsewhere(NOW, 30, 1)]))], WINDOW);
    assert!(matches!(book.decide(NOW, &read), Answer::Used(used) if (used.messages, used.tokens) == (1, 30)));
    assert!(!book.has_changes());
}
