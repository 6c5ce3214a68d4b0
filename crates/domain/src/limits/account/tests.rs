//! Several accounts in one step, of all scopes and costs, compared with an oracle that keeps every entry.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ids::Door;
use crate::limits::member_windows::MemberWindows;
use crate::limits::{Decision, FullAccount, LimitStep, Member, Request};

const WINDOW: u64 = 1_000;
const LEASE: Duration = Duration::from_millis(300);

fn turn(number: u32) -> TurnId {
    TurnId::new(Door::new("d"), number.to_string())
}

/// One account of each scope and cost, with limits that are small, zero or large.
fn accounts() -> Vec<Share> {
    let of = |(at, (scope, cost)): (usize, (Scope, Cost))| {
        let window = Duration::from_millis(WINDOW * (1 + at as u64 % 3));
        let account = Account { scope, cost, window, community: "5".into(), id: "x".into() };
        Share { account, limit: [3, 40, 200, 5_000, 0][at % 5], amount: None }
    };
    let pairs = Scope::ALL.into_iter().flat_map(|scope| Cost::ALL.map(move |cost| (scope, cost)));
    pairs.enumerate().map(of).collect()
}

/// One turn in one account, as kept by the oracle.
#[derive(Clone, Copy)]
struct Held {
    at: u64,
    amount: u64,
    open: bool,
}

#[derive(Default)]
struct Oracle(BTreeMap<Account, BTreeMap<u32, Held>>);

impl Oracle {
    fn used(&self, now: u64, account: &Account) -> u64 {
        let window = ids::millis(account.window);
        let held = self.0.get(account).into_iter().flat_map(BTreeMap::values);
        held.filter(|held| held.at + window > now).map(|held| held.amount).sum()
    }

    fn counts(&self, now: u64, account: &Account, number: u32) -> bool {
        let held = self.0.get(account).and_then(|turns| turns.get(&number));
        held.is_some_and(|held| held.at + ids::millis(account.window) > now)
    }

    /// Returns the index of the first full account.
    fn full(&self, now: u64, number: u32, shares: &[Share]) -> Option<usize> {
        shares.iter().position(|share| {
            let wanted = share.reserved(false);
            let room = share.limit > 0 && self.used(now, &share.account) + wanted <= share.limit;
            !self.counts(now, &share.account, number) && !room
        })
    }

    fn reserve(&mut self, now: u64, number: u32, shares: &[Share], exempt: bool) {
        for share in shares.iter().filter(|share| !self.counts(now, &share.account, number)).collect::<Vec<_>>() {
            let held = Held { at: now, amount: share.reserved(exempt), open: true };
            self.0.entry(share.account.clone()).or_default().insert(number, held);
        }
    }

    fn end(&mut self, now: u64, number: u32, shares: &[Share], cancels: bool) {
        for share in shares.iter().filter(|share| self.counts(now, &share.account, number)).collect::<Vec<_>>() {
            let turns = self.0.entry(share.account.clone()).or_default();
            let Some(held) = turns.get_mut(&number).filter(|held| held.open) else { continue };
            if cancels {
                turns.remove(&number);
            } else {
                (held.amount, held.open) = (share.amount.unwrap_or(held.amount), false);
            }
        }
    }
}

fn request(step: LimitStep, shares: Vec<Share>) -> Request {
    Request::of_shares(shares, step)
}

fn ask(number: u32, exempt: bool) -> LimitStep {
    let limits = Limits { messages: 0, tokens: 0 };
    LimitStep::Reserve(Reservation { turn: turn(number), tokens: 0, lease: LEASE, limits, exempt })
}

/// One random step: the operation, the turn, the accounts, an amount, and the elapsed time.
type Told = (u8, u32, u32, u64, u64);

fn story(steps: &[Told]) {
    let (mut book, mut oracle, mut now) = (MemberWindows::default(), Oracle::default(), 1_000_000);
    for (what, number, which, amount, passes) in steps {
        now += passes;
        let chosen = accounts().into_iter().enumerate().filter(|(at, _)| which >> at & 1 == 1);
        let amount = |share: &Share| if share.account.cost.is_counted() { 1 } else { *amount };
        let shares: Vec<Share> = chosen.map(|(_, share)| Share { amount: Some(amount(&share)), ..share }).collect();
        let at = Timestamp(now);
        match what {
            0..=4 => {
                let exempt = *what == 0 && number % 5 == 0;
                let known = shares.first().is_some_and(|share| oracle.counts(now, &share.account, *number));
                let full = if exempt || known { None } else { oracle.full(now, *number, &shares) };
                let before: Vec<u64> = shares.iter().map(|share| oracle.used(now, &share.account)).collect();
                match (book.decide(at, &request(ask(*number, exempt), shares.clone())), full) {
                    (Decision::Admitted, None) if known => {}
                    (Decision::Admitted, None) => oracle.reserve(now, *number, &shares, exempt),
                    (Decision::Refused(refusal), Some(place)) => {
                        let account = &shares[place].account;
                        assert_eq!(refusal.account, Some(FullAccount { place, scope: account.scope }));
                        assert_eq!(refusal.cost, account.cost);
                        assert!(!refusal.is_breach(), "no account is a breach");
                        assert_eq!(refusal.retry_after.is_none(), shares[place].limit == 0);
                        let after: Vec<u64> = shares.iter().map(|share| oracle.used(now, &share.account)).collect();
                        assert_eq!(before, after);
                    }
                    (answer, full) => panic!("{answer:?}, and the oracle says {full:?}"),
                }
            }
            5 | 6 => {
                book.decide(at, &request(LimitStep::Settle(turn(*number), None), shares.clone()));
                oracle.end(now, *number, &shares, false);
            }
            _ => {
                book.decide(at, &request(LimitStep::Cancel(turn(*number)), shares.clone()));
                oracle.end(now, *number, &shares, true);
            }
        }
        let Decision::Used(used) = book.decide(at, &read(accounts())) else { panic!() };
        let held: Vec<u64> = accounts().iter().map(|share| oracle.used(now, &share.account)).collect();
        assert_eq!(used.accounts.iter().map(|account| account.used).collect::<Vec<_>>(), held);
    }
}

/// Builds a read, which requires a member; this one has used nothing.
fn read(shares: Vec<Share>) -> Request {
    let step = LimitStep::Read(Limits { messages: 1, tokens: 1 });
    Request { shares, ..Request::of_member(Member::new("5:7"), Duration::from_secs(1), step) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn accounts_of_every_scope_and_cost_are_decided_as_one(
        steps in prop::collection::vec((0_u8..8, 0_u32..12, any::<u32>(), 0_u64..60, 0_u64..400), 1..120),
    ) {
        story(&steps);
    }

    /// Merged entries are never less than the exact count, and at most the count one part of a window ago.
    #[test]
    fn joined_entries_count_longer_and_never_shorter(
        turns in prop::collection::vec((1_u64..50, 0_u64..40), 300..900),
    ) {
        let account = Account {
            scope: Scope::Guild, cost: Cost::Dollars, window: Duration::from_secs(6), community: "5".into(), id: "".into(),
        };
        let share = |amount| Share { account: account.clone(), limit: u64::MAX, amount: Some(amount) };
        let (mut log, mut all, mut now) = (WindowLog::default(), Vec::new(), 1_000_000);
        for (number, (amount, passes)) in (0..).zip(&turns) {
            now += passes;
            let LimitStep::Reserve(asked) = ask(number, false) else { unreachable!() };
            log.reserve_share(Timestamp(now), &share(*amount), &asked);
            log.settle_share(Timestamp(now), &share(*amount), &turn(number));
            all.push((now, *amount));
            let since = |from: u64| all.iter().filter(|(at, _)| at + 6_000 > from).map(|(_, amount)| amount).sum::<u64>();
            let used = log.clone().used_of_share(Timestamp(now), &share(1)).used;
            let part = 6_000 / PARTS + 1;
            prop_assert!(since(now) <= used && used <= since(now.saturating_sub(part)));
            prop_assert!(log.entries().len() <= JOINED_FROM);
        }
    }
}

#[test]
fn the_members_own_window_is_told_first_and_nothing_is_written_when_an_account_refuses() {
    let share = |limit| {
        let (window, community) = (Duration::from_secs(60), "5".into());
        let account = Account { scope: Scope::Channel, cost: Cost::Messages, window, community, id: "40".into() };
        Share { account, limit, amount: Some(1) }
    };
    let ask = |number, messages, limit| {
        let limits = Limits { messages, tokens: 100 };
        let reservation = Reservation { turn: turn(number), tokens: 5, lease: LEASE, limits, exempt: false };
        let of_member =
            Request::of_member(Member::new("5:7"), Duration::from_secs(60), LimitStep::Reserve(reservation));
        Request { shares: vec![share(limit)], ..of_member }
    };
    let (mut book, now) = (MemberWindows::default(), Timestamp(1_000_000));
    let refused = |answer| if let Decision::Refused(refusal) = answer { refusal } else { panic!("{answer:?}") };
    assert_eq!(book.decide(now, &ask(1, 2, 1)), Decision::Admitted);
    assert_eq!(book.decide(now, &ask(1, 2, 1)), Decision::Admitted, "the same turn is the same reservation");
    let of_account = refused(book.decide(now, &ask(2, 2, 1)));
    assert_eq!((of_account.account.map(|account| account.scope), of_account.basis), (Some(Scope::Channel), Basis::Use));
    assert_eq!(of_account.retry_after, Some(Duration::from_secs(60)));
    assert_eq!(refused(book.decide(now, &ask(2, 1, 1))).account, None, "both are full");
    assert_eq!(book.decide(now, &ask(2, 2, 2)), Decision::Admitted, "what was refused counts nowhere");
}
