use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The most moments that any second holds, its end left out.
fn most_in_a_second(slots: &[Duration]) -> usize {
    slots
        .iter()
        .map(|start| slots.iter().filter(|slot| (*start..*start + SECOND).contains(*slot)).count())
        .max()
        .unwrap_or(0)
}

#[test]
fn a_burst_goes_at_once_and_the_rest_waits_its_turn() {
    let mut budget = RequestBudget::new(3);
    let slots: Vec<Duration> = (0..7).map(|_| budget.reserve(ms(500))).collect();
    let second = ms(500) + WINDOW;
    assert_eq!(slots, [ms(500), ms(500), ms(500), second, second, second, second + WINDOW]);
    assert_eq!(budget.reserve(ms(60_000)), ms(60_000), "an idle budget is full again");
}

#[test]
fn zero_sets_no_limit_but_blocks_still_hold() {
    let mut budget = RequestBudget::new(0);
    assert!((0..5_000).all(|_| budget.reserve(ms(1)) == ms(1)));
    assert!(budget.try_reserve(ms(1), 40));
    budget.block_until(ms(9_000));
    budget.block_until(ms(4_000));
    assert_eq!(budget.reserve(ms(2)), ms(9_000));
    assert!(!budget.try_reserve(ms(3), 0));
}

#[test]
fn unimportant_requests_leave_room_and_never_wait() {
    let mut budget = RequestBudget::new(5);
    assert!(budget.try_reserve(ms(0), 3));
    assert!(budget.try_reserve(ms(0), 3));
    assert!(!budget.try_reserve(ms(0), 3), "three are left for others");
    assert!((0..3).all(|_| budget.reserve(ms(0)) == ms(0)));
    assert!(!budget.try_reserve(ms(0), 0));
    assert_eq!(budget.reserve(ms(0)), WINDOW);
    assert!(!budget.try_reserve(ms(900), 0), "somebody already waits");
    assert!(budget.try_reserve(WINDOW, 3));
}

#[test]
fn those_who_waited_through_a_block_go_in_order_within_the_budget() {
    let mut budget = RequestBudget::new(2);
    let waiting: Vec<Duration> = (0..6).map(|_| budget.reserve(ms(0))).collect();
    budget.block_until(ms(10_000));
    let renewed: Vec<Duration> = waiting.into_iter().skip(2).map(|slot| budget.renew(slot)).collect();
    assert_eq!(renewed, [ms(10_000), ms(10_000), ms(10_000) + WINDOW, ms(10_000) + WINDOW]);
    assert_eq!(budget.renew(ms(10_000)), ms(10_000), "what comes after the block holds");
}

#[test]
fn too_many_refusals_hold_everything_until_the_oldest_is_forgotten() {
    let mut budget = InvalidBudget::new(3);
    for at in [0, 1_000, 2_000] {
        assert_eq!(budget.hold(ms(at)), None);
        budget.invalid(ms(at));
    }
    assert_eq!(budget.hold(ms(2_000)), Some(INVALID_WINDOW));
    assert_eq!(budget.hold(INVALID_WINDOW), None);
    budget.invalid(ms(3_000));
    assert_eq!(budget.hold(INVALID_WINDOW), Some(ms(1_000) + INVALID_WINDOW));
    let mut unlimited = InvalidBudget::new(0);
    unlimited.invalid(ms(0));
    assert_eq!(unlimited.hold(ms(0)), None);
}

#[derive(Debug, Clone)]
enum Act {
    Reserve,
    Try(u32),
    Block(u64),
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let act = prop_oneof![
        12 => Just(Act::Reserve),
        4 => (0_u32..6).prop_map(Act::Try),
        1 => (0_u64..5_000).prop_map(Act::Block),
    ];
    let gap = prop_oneof![Just(0_u64), 0_u64..40, 0_u64..2_000];
    proptest::collection::vec((gap, act), 1..150)
}

proptest! {
    #[test]
    fn no_second_holds_more_than_the_budget(acts in acts(), per_second in 1_u32..12) {
        let mut budget = RequestBudget::new(per_second);
        let (mut now, mut blocked) = (Duration::ZERO, Duration::ZERO);
        let mut slots: Vec<Duration> = Vec::new();
        for (gap, act) in acts {
            now += ms(gap);
            match act {
                Act::Reserve => {
                    let slot = budget.reserve(now);
                    prop_assert!(slot >= now && slot >= blocked);
                    prop_assert!(slots.last().is_none_or(|last| *last <= slot), "first come, first served");
                    slots.push(slot);
                }
                Act::Try(spare) => {
                    let used = slots.iter().filter(|slot| **slot + SECOND > now).count();
                    if budget.try_reserve(now, spare) {
                        prop_assert!(used + 1 + spare as usize <= per_second as usize);
                        prop_assert!(blocked <= now);
                        slots.push(now);
                    }
                }
                Act::Block(length) => {
                    blocked = blocked.max(now + ms(length));
                    budget.block_until(blocked);
                }
            }
        }
        prop_assert!(most_in_a_second(&slots) <= per_second as usize);
    }

    #[test]
    fn a_steady_crowd_uses_the_budget(per_second in 1_u32..60, count in 1_u32..300) {
        let mut budget = RequestBudget::new(per_second);
        let last = (0..count).map(|_| budget.reserve(Duration::ZERO)).last().unwrap_or_default();
        prop_assert_eq!(last, WINDOW * ((count - 1) / per_second), "nobody waits longer than needed");
    }

    #[test]
    fn refusals_in_any_window_stay_within_the_limit(gaps in proptest::collection::vec(0_u64..200_000, 1..60), limit in 1_u32..6) {
        let mut budget = InvalidBudget::new(limit);
        let mut refused: Vec<Duration> = Vec::new();
        let mut now = Duration::ZERO;
        for gap in gaps {
            now += ms(gap);
            // Whoever obeys the hold sends only when there is none.
            now = budget.hold(now).unwrap_or(now);
            budget.invalid(now);
            refused.push(now);
        }
        for start in &refused {
            let within = refused.iter().filter(|at| (*start..*start + INVALID_WINDOW).contains(*at)).count();
            prop_assert!(within <= limit as usize);
        }
    }
}
