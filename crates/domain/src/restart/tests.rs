use proptest::prelude::*;

use super::*;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

const LAW: RestartPolicy = RestartPolicy {
    restart: Restart::Permanent,
    intensity: Intensity { restarts: 3, period: seconds(10) },
    backoff: Backoff { base: seconds(1), cap: seconds(5) },
};

/// Returns the decisions for failures at these seconds, with the longest jitter.
fn judge(policy: &RestartPolicy, times: &[u64]) -> Vec<RestartDecision> {
    let mut history = RestartHistory::default();
    times.iter().map(|at| history.record(policy, Exit::Failure, seconds(*at), 1.0)).collect()
}

fn after(n: u64) -> RestartDecision {
    RestartDecision::RestartAfter(seconds(n))
}

#[test]
fn policies_decide_who_rises_again() {
    for (restart, exit, expected) in [
        (Restart::Permanent, Exit::Normal, after(1)),
        (Restart::Permanent, Exit::Failure, after(1)),
        (Restart::Transient, Exit::Normal, RestartDecision::Leave),
        (Restart::Transient, Exit::Failure, after(1)),
        (Restart::Temporary, Exit::Normal, RestartDecision::Leave),
        (Restart::Temporary, Exit::Failure, RestartDecision::Leave),
    ] {
        let policy = RestartPolicy { restart, ..LAW };
        assert_eq!(RestartHistory::default().record(&policy, exit, seconds(7), 1.0), expected, "{restart:?} {exit:?}");
    }
}

#[test]
fn one_restart_too_many_within_the_period_escalates() {
    assert_eq!(judge(&LAW, &[0, 1, 2, 3]), [after(1), after(2), after(4), RestartDecision::Escalate]);
    assert_eq!(judge(&LAW, &[0, 4, 8, 10])[3], RestartDecision::Escalate, "the whole period counts, its end too");
    assert_eq!(judge(&LAW, &[0, 4, 8, 11])[3], after(5));
    let none = RestartPolicy { intensity: Intensity { restarts: 0, ..LAW.intensity }, ..LAW };
    assert_eq!(judge(&none, &[0]), [RestartDecision::Escalate]);
}

#[test]
fn what_others_caused_is_not_counted_and_waits_longer() {
    let mut history = RestartHistory::default();
    for (at, expected) in [(0, 1), (1, 2), (3, 4), (7, 8), (15, 16), (31, 30), (61, 30)] {
        assert_eq!(history.record(&LAW, Exit::Poison, seconds(at), 1.0), after(expected));
    }
    assert_eq!(history.record(&LAW, Exit::Failure, seconds(91), 1.0), after(5), "the first one that counts");
    let slow = RestartPolicy { backoff: Backoff { base: seconds(60), cap: seconds(60) }, ..LAW };
    assert_eq!(RestartHistory::default().record(&slow, Exit::Poison, seconds(0), 1.0), after(60));
    let never = RestartPolicy { restart: Restart::Temporary, ..LAW };
    assert_eq!(RestartHistory::default().record(&never, Exit::Poison, seconds(0), 1.0), RestartDecision::Leave);
}

#[test]
fn waits_double_up_to_the_cap_and_start_anew_after_a_calm_period() {
    let patient = RestartPolicy { intensity: Intensity { restarts: MAX_REMEMBERED, ..LAW.intensity }, ..LAW };
    assert_eq!(judge(&patient, &[0, 1, 3, 7, 12]), [after(1), after(2), after(4), after(5), after(5)]);
    assert_eq!(
        judge(&patient, &[0, 1, 3, 18]),
        [after(1), after(2), after(4), after(1)],
        "eleven calm seconds since the rise at 7"
    );
    let slow = RestartPolicy { backoff: Backoff { base: seconds(60), cap: seconds(600) }, ..patient };
    assert_eq!(judge(&slow, &[0, 60, 180]), [after(60), after(120), after(240)], "waiting for the restart is no calm");
}

#[test]
fn a_base_of_zero_restarts_at_once() {
    let eager = RestartPolicy { backoff: Backoff { base: Duration::ZERO, cap: seconds(5) }, ..LAW };
    assert_eq!(judge(&eager, &[0, 0, 0]), [after(0), after(0), after(0)]);
}

#[test]
fn a_law_without_escalation_keeps_a_bounded_memory() {
    let endless = RestartPolicy { intensity: Intensity { restarts: u32::MAX, period: Duration::MAX }, ..LAW };
    let mut history = RestartHistory::default();
    for at in 0..5_000 {
        assert!(matches!(history.record(&endless, Exit::Failure, seconds(at), 0.5), RestartDecision::RestartAfter(_)));
    }
    assert_eq!(history.restarts.len(), MAX_REMEMBERED as usize);
}

proptest! {
    #[test]
    fn delays_stay_within_their_bound(
        base in 0_u64..100_000, cap in 0_u64..10_000_000, attempt in any::<u32>(), roll in 0.0_f64..1.0
    ) {
        let backoff = Backoff { base: Duration::from_millis(base), cap: Duration::from_millis(cap) };
        let delay = backoff.delay(attempt, roll);
        prop_assert!(delay <= backoff.bound(attempt) && delay <= backoff.cap);
        prop_assert!(backoff.bound(attempt) <= backoff.bound(attempt.saturating_add(1)));
        prop_assert!(backoff.delay(attempt, roll / 2.0) <= delay);
    }

    #[test]
    fn odd_rolls_are_harmless(roll in any::<f64>(), attempt in any::<u32>()) {
        let backoff = Backoff { base: seconds(1), cap: seconds(30) };
        prop_assert!(backoff.delay(attempt, roll) <= backoff.cap);
    }

    #[test]
    fn never_more_restarts_within_a_period_than_are_borne(
        gaps in proptest::collection::vec(0_u64..6_000, 1..80), restarts in 0_u32..8
    ) {
        let intensity = Intensity { restarts, period: seconds(10) };
        let policy = RestartPolicy { intensity, ..LAW };
        let mut history = RestartHistory::default();
        let (mut now, mut borne) = (Duration::ZERO, Vec::new());
        for gap in gaps {
            now += Duration::from_millis(gap);
            let in_period = borne.iter().filter(|at| now.saturating_sub(**at) <= intensity.period).count();
            match history.record(&policy, Exit::Failure, now, 0.5) {
                RestartDecision::RestartAfter(_) => {
                    prop_assert!(in_period < restarts as usize);
                    borne.push(now);
                }
                verdict => {
                    prop_assert_eq!(verdict, RestartDecision::Escalate);
                    prop_assert_eq!(in_period, restarts as usize, "it escalates no sooner than it must");
                }
            }
        }
    }
}
