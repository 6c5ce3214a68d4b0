use std::sync::Arc;

use super::*;
use crate::ids::{Door, TurnId};
use crate::limits::window_log::EntryState;
use crate::limits::{Limits, Reservation};

const WINDOW: Duration = Duration::from_secs(60);
const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn member(number: usize) -> Counted {
    Counted::Member(Member::new(format!("5:{number}")))
}

fn request(who: &Counted, step: LimitStep) -> Request {
    let Counted::Member(member) = who else { panic!("an account") };
    Request::of_member(member.clone(), WINDOW, step)
}

fn turn(number: usize) -> TurnId {
    TurnId::new(Door::new("d"), number.to_string())
}

fn used(who: &Counted) -> Request {
    let limits = Limits { messages: 9, tokens: 1_000 };
    request(who, LimitStep::Read(limits))
}

fn reserve(who: &Counted, number: usize) -> Request {
    let limits = Limits { messages: 2, tokens: 1_000 };
    let lease = Duration::from_secs(5);
    let step = LimitStep::Reserve(Reservation { turn: turn(number), tokens: 10, lease, limits, exempt: false });
    request(who, step)
}

fn settle(who: &Counted, number: usize, tokens: u64) -> Request {
    request(who, LimitStep::Settle(turn(number), Some(tokens)))
}

fn elsewhere(at: Timestamp, tokens: u64, number: usize) -> WindowEntry {
    let turn = Some(Arc::from(turn_part(&turn(number))));
    WindowEntry { at, tokens, turn, message: true, state: EntryState::Open(Timestamp(at.0 + 5_000)) }
}

#[test]
fn changes_wait_until_they_are_kept() {
    let mut book = MemberWindows::default();
    let who = member(7);
    assert!(!book.has_changes() && book.changes().is_empty());
    assert_eq!(book.decide(NOW, &reserve(&who, 1)), Decision::Admitted);
    let first = book.changes_of(&who).unwrap();
    assert_eq!((first.turns.len(), first.turns[0].1.as_ref().map(|entry| entry.tokens)), (1, Some(10)));
    book.decide(NOW, &settle(&who, 1, 70));
    book.decide(NOW, &settle(&who, 1, 99));
    book.kept(first.through);
    let [changes] = &book.changes()[..] else { panic!() };
    assert_eq!(changes.turns[0].1.as_ref().map(|entry| (entry.tokens, entry.state)), Some((70, EntryState::Settled)));
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
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]), 1);
    assert!(!book.has_changes());
    book.decide(NOW, &settle(&who, 1, 50));
    assert_eq!(book.decide(NOW, &reserve(&who, 2)), Decision::Admitted);
    assert!(matches!(book.decide(NOW, &reserve(&who, 3)), Decision::Refused(_)), "two are allowed");
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]), 1);
    let changes = book.changes_of(&who).unwrap();
    let tokens: Vec<_> = changes.turns.iter().map(|(_, entry)| entry.as_ref().map(|entry| entry.tokens)).collect();
    assert_eq!(tokens, [Some(50), Some(10)]);
    assert!(matches!(book.decide(NOW, &reserve(&who, 3)), Decision::Refused(_)));
}

#[test]
fn a_refusal_decided_here_is_told_where_the_question_may_have_arrived() {
    let mut book = MemberWindows::default();
    let who = member(7);
    let full = WindowLog::of(vec![elsewhere(NOW, 30, 1), elsewhere(NOW, 30, 2)]);
    book.learned(NOW, &who, WINDOW, full, 1);
    assert!(matches!(book.decide(NOW, &reserve(&who, 3)), Decision::Refused(_)));
    assert!(!book.has_changes());
    book.tell_of(&reserve(&who, 3));
    let turns = book.changes_of(&who).unwrap().turns;
    assert_eq!(turns, [(turn_part(&turn(3)).into_boxed_str(), None)]);
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
    let read = request(&member(7), LimitStep::Read(Limits { messages: 2, tokens: 10 }));
    assert!(matches!(book.decide(NOW, &read), Decision::Used(used) if used.messages == 0 && used.wait.is_none()));
    assert!(book.pages.is_empty());
    book.load(vec![(member(7), WindowLog::of(vec![elsewhere(NOW, 30, 1)]))], WINDOW);
    assert!(matches!(book.decide(NOW, &read), Decision::Used(used) if (used.messages, used.tokens) == (1, 30)));
    assert!(!book.has_changes());
}

#[test]
fn what_was_done_elsewhere_is_followed_and_a_difference_is_noticed() {
    let (mut book, who) = (MemberWindows::default(), member(7));
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]), 4);
    assert_eq!(book.version(NOW, &who), 4);
    book.followed(NOW, &reserve(&who, 2), 4, 5, (2, 40));
    assert_eq!(book.version(NOW, &who), 5);
    let Decision::Used(used) = book.decide(NOW, &used(&who)) else { panic!() };
    assert_eq!((used.messages, used.tokens), (2, 40));
    let mut other = reserve(&who, 3);
    if let LimitStep::Reserve(ask) = &mut other.step {
        ask.limits.messages = 9;
    }
    book.followed(NOW, &other, 5, 6, (3, 51));
    assert_eq!(book.version(NOW, &who), 0, "fifty are known here");
    let later = Timestamp(NOW.0 + 60_000);
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]), 7);
    assert_eq!(book.version(later, &who), 0, "nothing counts any more");
}

#[test]
fn what_this_process_reserved_and_the_server_lost_is_kept_there_again() {
    let (mut book, who) = (MemberWindows::default(), member(7));
    let mine = WindowLog::of(vec![elsewhere(NOW, 30, 1), elsewhere(NOW, 10, 2), elsewhere(NOW, 5, 3)]);
    book.learned(NOW, &who, WINDOW, mine, 4);
    book.did(&reserve(&who, 2));
    book.did(&reserve(&who, 3));
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 70, 9)]), 5);
    let changes = book.changes_of(&who).unwrap();
    let told: Vec<_> = changes.turns.iter().map(|(turn, _)| &**turn).collect();
    assert_eq!(told, ["d%3A1", "d%3A2", "d%3A3"], "those of others too");
    let Decision::Used(known) = book.decide(NOW, &used(&who)) else { panic!() };
    assert_eq!((known.messages, known.tokens), (4, 115));
    assert_eq!(book.everything(&who, WINDOW).turns.len(), 4);
}

#[test]
fn what_was_overtaken_on_its_way_is_no_loss() {
    let (mut book, who) = (MemberWindows::default(), member(7));
    book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1), elsewhere(NOW, 10, 2)]), 5);
    book.did(&reserve(&who, 2));
    assert!(!book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]), 4));
    assert!(!book.learned(NOW, &who, WINDOW, WindowLog::of(vec![elsewhere(NOW, 30, 1)]), 0));
    assert!(!book.has_changes());
}

/// There may be as many pages as members, and most hold one entry that is already replicated.
#[test]
fn a_page_with_one_entry_that_is_kept_elsewhere_has_no_room_for_more() {
    let mut book = MemberWindows::default();
    let who = member(7);
    for request in [reserve(&who, 1), settle(&who, 1, 70)] {
        book.decide(NOW, &request);
        book.did(&request);
    }
    book.kept(book.last());
    let page = &book.pages[&who];
    assert_eq!((page.log.room(), page.changes.capacity(), page.own.capacity()), (1, 0, 1));
    assert!(
        size_of::<Page>() <= 112 && size_of::<WindowEntry>() <= 56,
        "{} {}",
        size_of::<Page>(),
        size_of::<WindowEntry>()
    );
    book.decide(NOW, &reserve(&who, 2));
    book.kept_of(&who, book.last());
    let page = &book.pages[&who];
    assert_eq!((page.log.entries().len(), page.changes.capacity()), (2, 0));
}
