use std::collections::HashSet;
use std::time::Duration;

use super::*;
use crate::ids::{Door, Timestamp, TurnId};
use crate::limits::member_windows::MemberWindows;
use crate::limits::{Decision, LimitStep, Member, Request, Reservation};

const WINDOW: Duration = Duration::from_secs(60);
const DOORS: [&str; 3] = ["discord", "slack", "api"];

fn account(number: usize) -> Person {
    Person::new(Door::new(DOORS[number % DOORS.len()]), number.to_string())
}

/// A sequence of numbers that is the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

fn step(links: &mut Links, numbers: &mut Numbers, accounts: usize) {
    let (one, other) = (account(numbers.next(accounts)), account(numbers.next(accounts)));
    if numbers.next(3) == 0 {
        let _ = links.unlink(&one);
    } else {
        let _ = links.link(&one, &other);
    }
}

#[test]
fn links_are_an_equivalence_after_any_sequence() {
    let (mut links, mut numbers) = (Links::default(), Numbers(7));
    for _ in 0..2_000 {
        step(&mut links, &mut numbers, 12);
        let mut seen = 0;
        for person in links.people() {
            assert!((2..=ACCOUNTS_MAX).contains(&person.accounts().len()));
            for one in person.accounts() {
                seen += 1;
                assert_eq!(links.linked(one), *person, "symmetric and transitive");
                assert_eq!(links.linked(one).lead(one), person.lead(one), "one leads for all");
            }
        }
        assert_eq!(seen, links.of.len(), "an account has one person");
        assert_eq!(Links::parse(Some(&links.to_json())), Some(links.clone()));
    }
}

#[test]
fn the_first_person_leads_and_an_unlinked_account_stands_alone() {
    let [ada, key, slack, other] = [0, 2, 1, 3].map(account);
    let mut links = Links::default();
    links.link(&ada, &key).unwrap();
    links.link(&slack, &other).unwrap();
    let all = links.link(&key, &slack).unwrap();
    assert_eq!(all.accounts(), [ada.clone(), key.clone(), slack.clone(), other.clone()]);
    assert_eq!(links.link(&other, &ada), Err(LinkRefusal::Already));
    assert_eq!(links.link(&ada, &ada), Err(LinkRefusal::Already));
    assert_eq!(all.from(&slack).collect::<Vec<_>>(), [&slack, &ada, &key, &other]);
    links.unlink(&ada).unwrap();
    assert!(links.linked(&ada).is_empty() && links.linked(&ada).lead(&ada) == &ada);
    assert_eq!(links.linked(&other).lead(&other), &key);
    assert_eq!(links.unlink(&ada), Err(LinkRefusal::NoLink));
    links.unlink(&key).unwrap();
    links.unlink(&slack).unwrap();
    assert!(links.is_empty(), "a single account is no link");
}

#[test]
fn the_number_of_accounts_is_bounded() {
    let mut links = Links::default();
    for number in 1..ACCOUNTS_MAX {
        links.link(&account(0), &account(number)).unwrap();
    }
    let before = links.clone();
    assert_eq!(links.link(&account(0), &account(ACCOUNTS_MAX)), Err(LinkRefusal::Full));
    assert_eq!(links, before);
    let pairs = (0..LINKED_MAX / 2).map(|pair| Linked(vec![account(pair * 2), account(pair * 2 + 1)]));
    let mut full = Links::of_people(pairs.collect());
    assert_eq!(full.link(&account(LINKED_MAX), &account(LINKED_MAX + 1)), Err(LinkRefusal::Full));
    assert!(full.to_json().len() < 512 * 1024);
}

#[test]
fn a_damaged_record_is_not_read() {
    for bad in [
        "",
        "{}",
        r#"{"version":2,"people":[]}"#,
        r#"{"version":1,"people":[["discord:7"]]}"#,
        r#"{"version":1,"people":[["discord:7","api:a"],["api:a","slack:b"]]}"#,
    ] {
        assert_eq!(Links::parse(Some(bad)), None, "{bad}");
    }
}

/// Two accounts of one human who asks, links and unlinks as often as the human likes: no account is ever admitted more
/// than without links.
#[test]
fn no_sequence_of_links_admits_more_than_the_accounts_alone() {
    const LIMIT: u32 = 5;
    const ACCOUNTS: usize = 4;
    let limits = Limits { messages: LIMIT, tokens: 1_000_000 };
    let rules =
        LimitRules { base: limits, roles: vec![], channels: vec![], exempt: HashSet::default(), window: WINDOW };
    for seed in 0..50 {
        let (mut links, mut numbers, mut book) = (Links::default(), Numbers(seed), MemberWindows::default());
        let mut admitted: Vec<(usize, u64)> = Vec::new();
        let mut linked_all_along = true;
        for turn in 0..400_u64 {
            let now = Timestamp(1_000 + turn * 500);
            if numbers.next(4) == 0 {
                step(&mut links, &mut numbers, ACCOUNTS);
                linked_all_along = false;
            }
            let number = numbers.next(ACCOUNTS);
            let asking = account(number);
            let linked = links.linked(&asking);
            let mut shares = linked.shares(&asking, limits, &rules, &[]);
            for share in &mut shares {
                share.amount = Some(1);
            }
            let id = TurnId::new(asking.door.clone(), turn.to_string());
            let reserve = Reservation { turn: id.clone(), tokens: 1, lease: WINDOW, limits, exempt: false };
            let member = Some(Member::of(&asking, Some("5")));
            let request = Request { member, window: WINDOW, step: LimitStep::Reserve(reserve), shares };
            if book.decide(now, &request) == Decision::Admitted {
                book.decide(now, &Request { step: LimitStep::Settle(id, Some(1)), ..request });
                admitted.push((number, now.0));
            }
            let recent = |of: usize| admitted.iter().filter(|(by, at)| *by == of && at + 60_000 > now.0).count();
            assert!((0..ACCOUNTS).all(|of| recent(of) <= LIMIT as usize), "seed {seed}, turn {turn}");
        }
        assert!(!linked_all_along && !admitted.is_empty());
    }
}

#[test]
fn linked_accounts_have_one_window() {
    let limits = Limits { messages: 3, tokens: 1_000_000 };
    let rules =
        LimitRules { base: limits, roles: vec![], channels: vec![], exempt: HashSet::default(), window: WINDOW };
    let (mut links, mut book) = (Links::default(), MemberWindows::default());
    links.link(&account(0), &account(1)).unwrap();
    let mut ask = |number: usize, turn: u64| {
        let asking = account(number);
        let mut shares = links.linked(&asking).shares(&asking, limits, &rules, &[]);
        for share in &mut shares {
            share.amount = Some(1);
        }
        let id = TurnId::new(asking.door.clone(), turn.to_string());
        let step = LimitStep::Reserve(Reservation { turn: id, tokens: 1, lease: WINDOW, limits, exempt: false });
        let request = Request { member: Some(Member::of(&asking, Some("5"))), window: WINDOW, step, shares };
        book.decide(Timestamp(1_000 + turn), &request) == Decision::Admitted
    };
    assert_eq!([ask(0, 1), ask(1, 2), ask(0, 3), ask(1, 4), ask(0, 5)], [true, true, true, false, false]);
    assert!(ask(2, 6), "another person is not counted");
}

#[test]
fn budgets_of_a_member_count_the_person_too_and_others_do_not() {
    let share = |scope, id: &str| Share {
        account: Account { scope, cost: Cost::Dollars, window: WINDOW, community: "5".into(), id: id.into() },
        limit: 9,
        amount: None,
    };
    let own = [share(Scope::Member, "0#ab"), share(Scope::Channel, "42"), share(Scope::Guild, "")];
    let mut links = Links::default();
    links.link(&account(1), &account(0)).unwrap();
    let asking = account(0);
    let copies: Vec<Share> = links.linked(&asking).copies(&asking, &own).collect();
    let ids: Vec<(&str, &str)> = copies.iter().map(|copy| (&*copy.account.community, &*copy.account.id)).collect();
    assert_eq!(ids, [(EVERYWHERE, "slack:1##ab")]);
    assert_eq!(Linked::default().copies(&asking, &own).count(), 0);
}
