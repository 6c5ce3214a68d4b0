use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns the largest number of moments in any second, its end excluded.
fn most_in_a_second(slots: &[Duration]) -> usize {
    slots
        .iter()
        .map(|start| slots.iter().filter(|slot| (*start..*start + SECOND).contains(*slot)).count())
        .max()
        .unwrap_or(0)
}

/// Returns when each of `count` requests that are queued from `begin` on is sent, if each answer takes `answer`.
fn row(budget: &mut RequestBudget, begin: Duration, count: usize, answer: Duration) -> Vec<Duration> {
    let mut now = begin;
    let mut flying: Vec<(Duration, Ticket)> = Vec::new();
    let mut sent = Vec::new();
    while sent.len() < count {
        for (at, ticket) in flying.extract_if(.., |(at, _)| *at <= now) {
            budget.answered(ticket, at);
        }
        match budget.take(now) {
            Ok(ticket) => {
                sent.push(now);
                flying.push((now + answer, ticket));
            }
            Err(at) => now = at,
        }
    }
    sent
}

#[test]
fn a_burst_goes_at_once_and_the_rest_waits_its_turn() {
    let mut budget = RequestBudget::new(3);
    let (first, second, third) = (ms(500), ms(1_540), ms(2_580));
    assert_eq!(row(&mut budget, first, 7, ms(40)), [first, first, first, second, second, second, third]);
    assert!(budget.take(ms(60_000)).is_ok(), "an idle budget is full again");
}

#[test]
fn a_request_without_an_answer_counts_only_as_long_as_it_may_still_arrive() {
    let mut budget = RequestBudget::new(1);
    let ticket = budget.take(ms(0)).expect("the first permit is free");
    assert_eq!(budget.take(ms(10)), Err(ms(1_010)), "an answer may come any moment");
    assert_eq!(budget.take(ms(1_010)), Err(ARRIVAL + WINDOW));
    let next = budget.take(ARRIVAL + WINDOW).expect("the second permit is free");
    budget.answered(ticket, ARRIVAL + WINDOW + ms(5));
    assert!(budget.take(ARRIVAL + WINDOW + ms(1_100)).is_err(), "a late answer frees only its own slot");
    budget.answered(next, ARRIVAL + WINDOW + ms(20));
    assert!(budget.take(ARRIVAL + WINDOW + ms(20) + WINDOW).is_ok());
}

#[test]
fn zero_sets_no_limit_but_blocks_still_hold() {
    let mut budget = RequestBudget::new(0);
    assert!((0..5_000).all(|_| budget.take(ms(1)).is_ok()));
    assert!(budget.try_take(ms(1), 40).is_some());
    budget.block_until(ms(9_000));
    budget.block_until(ms(4_000));
    assert_eq!(budget.take(ms(2)), Err(ms(9_000)));
    assert!(budget.try_take(ms(3), 0).is_none());
    assert!(budget.take(ms(9_000)).is_ok());
}

#[test]
fn unimportant_requests_leave_room_and_never_wait() {
    let mut budget = RequestBudget::new(5);
    assert!(budget.try_take(ms(0), 3).is_some());
    assert!(budget.try_take(ms(0), 3).is_some());
    assert!(budget.try_take(ms(0), 3).is_none(), "three are left for others");
    assert!((0..3).all(|_| budget.take(ms(0)).is_ok()));
    assert!(budget.try_take(ms(0), 0).is_none());
    assert!(budget.try_take(ARRIVAL + WINDOW, 3).is_some());
}

#[test]
fn those_who_waited_through_a_block_go_within_the_budget() {
    let mut budget = RequestBudget::new(2);
    assert_eq!(row(&mut budget, ms(0), 2, ms(0)), [ms(0), ms(0)]);
    budget.block_until(ms(10_000));
    let second = ms(10_000) + WINDOW;
    assert_eq!(row(&mut budget, ms(10), 4, ms(0)), [ms(10_000), ms(10_000), second, second]);
}

#[test]
fn too_many_refusals_hold_everything_until_the_oldest_is_forgotten() {
    let mut budget = InvalidBudget::<u8>::new(3);
    for at in [0, 1_000, 2_000] {
        assert_eq!(budget.hold(ms(at), None), None);
        budget.invalid(ms(at), None);
    }
    assert_eq!(budget.hold(ms(2_000), None), Some(INVALID_WINDOW));
    assert_eq!(budget.hold(ms(2_000), Some(&1)), Some(INVALID_WINDOW));
    assert_eq!(budget.hold(INVALID_WINDOW, None), None);
    budget.invalid(INVALID_WINDOW, None);
    assert_eq!(budget.hold(INVALID_WINDOW, None), Some(ms(1_000) + INVALID_WINDOW));
    let mut unlimited = InvalidBudget::<u8>::new(0);
    unlimited.invalid(ms(0), Some(1));
    assert_eq!(unlimited.hold(ms(0), Some(&1)), None);
    assert!(!unlimited.may_hold());
}

#[test]
fn each_further_payer_has_refusals_left_until_the_oldest_expire() {
    let mut budget = InvalidBudget::new(12);
    let mut counts = Vec::new();
    for payer in 1..=4_u8 {
        let mut spent = 0;
        while budget.hold(ms(u64::from(payer)), Some(&payer)).is_none() {
            budget.invalid(ms(u64::from(payer)), Some(payer));
            spent += 1;
        }
        counts.push(spent);
    }
    assert_eq!(counts, [6, 3, 2, 1]);
    assert_eq!(budget.hold(ms(4), Some(&5)), Some(ms(1) + INVALID_WINDOW), "nothing is left for the next");
    // The refusals of the first payer expire, so all may send again.
    for payer in 1..=5 {
        assert_eq!(budget.hold(ms(1) + INVALID_WINDOW, Some(&payer)), None);
    }
    let mut one = InvalidBudget::new(12);
    for at in 0..6 {
        one.invalid(ms(at), Some(1));
    }
    assert!(one.may_hold() && one.hold(ms(6), Some(&2)).is_none() && one.hold(ms(6), None).is_none());
    assert_eq!(one.hold(ms(6), Some(&1)), Some(INVALID_WINDOW), "until one more is left than it has spent");
}

/// One request to the budget: milliseconds since the previous one, until the answer, and until the arrival within
/// that time.
#[derive(Debug, Clone)]
struct Asked {
    gap: u64,
    answer: u64,
    arrives: f64,
    spare: Option<u32>,
    block: Option<u64>,
}

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let gap = prop_oneof![6 => Just(0_u64), 3 => 0_u64..40, 1 => 0_u64..2_000];
    let answer = prop_oneof![6 => 1_u64..300, 1 => 300_u64..5_000];
    let spare = proptest::option::weighted(0.2, 0_u32..6);
    let block = proptest::option::weighted(0.05, 0_u64..5_000);
    let one = (gap, answer, 0.0_f64..1.0, spare, block).prop_map(|(gap, answer, arrives, spare, block)| Asked {
        gap,
        answer,
        arrives,
        spare,
        block,
    });
    proptest::collection::vec(one, 1..150)
}

proptest! {
    #[test]
    fn no_second_of_the_platform_holds_more_than_the_budget(asked in asked(), per_second in 1_u32..12) {
        let mut budget = RequestBudget::new(per_second);
        let (mut now, mut blocked) = (Duration::ZERO, Duration::ZERO);
        let mut flying: Vec<(Duration, Ticket)> = Vec::new();
        let mut arrived: Vec<Duration> = Vec::new();
        for Asked { gap, answer, arrives, spare, block } in asked {
            now += ms(gap);
            if let Some(length) = block {
                blocked = blocked.max(now + ms(length));
                budget.block_until(blocked);
            }
            let ticket = loop {
                for (at, ticket) in flying.extract_if(.., |(at, _)| *at <= now) {
                    budget.answered(ticket, at);
                }
                if let Some(spare) = spare {
                    break budget.try_take(now, spare);
                }
                match budget.take(now) {
                    Ok(ticket) => break Some(ticket),
                    Err(at) => {
                        prop_assert!(at > now);
                        now = at;
                    }
                }
            };
            if let Some(ticket) = ticket {
                prop_assert!(now >= blocked);
                flying.push((now + ms(answer), ticket));
                arrived.push(now + ms(answer).min(ARRIVAL).mul_f64(arrives));
            }
        }
        prop_assert!(most_in_a_second(&arrived) <= per_second as usize);
    }

    #[test]
    fn a_steady_crowd_uses_the_budget(per_second in 1_u32..60, count in 1_u32..300, answer in 0_u64..900) {
        let mut budget = RequestBudget::new(per_second);
        let last = row(&mut budget, Duration::ZERO, count as usize, ms(answer)).last().copied();
        let rounds = (count - 1) / per_second;
        prop_assert_eq!(last, Some((WINDOW + ms(answer)) * rounds), "no request waits longer than needed");
    }

    #[test]
    fn refusals_in_any_window_stay_within_the_limit(gaps in proptest::collection::vec(0_u64..200_000, 1..60), limit in 1_u32..6) {
        let mut budget = InvalidBudget::<u8>::new(limit);
        let mut refused: Vec<Duration> = Vec::new();
        let mut now = Duration::ZERO;
        for gap in gaps {
            now += ms(gap);
            // A caller that obeys the hold sends only when there is none.
            now = budget.hold(now, None).unwrap_or(now);
            budget.invalid(now, None);
            refused.push(now);
        }
        for start in &refused {
            let within = refused.iter().filter(|at| (*start..*start + INVALID_WINDOW).contains(*at)).count();
            prop_assert!(within <= limit as usize);
        }
    }
}

#[test]
fn refusals_of_courtesies_leave_their_payer_some_for_answers() {
    let mut budget = InvalidBudget::new(1_000);
    let courtesies = (0..1_000).take_while(|_| {
        let spares = budget.spares(Duration::ZERO, || Some("a"));
        if spares {
            budget.invalid(Duration::ZERO, Some("a"));
        }
        spares
    });
    assert_eq!(courtesies.count(), 334);
    assert!(budget.hold(Duration::ZERO, Some(&"a")).is_none(), "answers are sent");
    assert!(budget.spares(Duration::ZERO, || Some("b")) && budget.spares(INVALID_WINDOW, || Some("a")));
    let mut endless = InvalidBudget::new(0);
    endless.invalid(Duration::ZERO, Some("a"));
    assert!(endless.spares(Duration::ZERO, || Some("a")));
}
