use std::time::Duration;

use super::*;

fn remaining(verdict: &RateDecision) -> Option<u32> {
    match verdict {
        RateDecision::Pass(Some(standing)) => Some(standing.remaining),
        RateDecision::Pass(None) | RateDecision::Refused(_) | RateDecision::RefusedGlobally(_) => None,
    }
}

#[tokio::test]
async fn a_window_begins_with_its_first_request_and_ends_on_time() {
    let (mut limits, start) = (Limits::new(Budgets::default()), Instant::now());
    let mut write = |major: u64, after: u64| limits.charge(Bucket::Writes, major, start + Duration::from_millis(after));
    let passed: Vec<_> = (0..5).map(|n| remaining(&write(1, n * 1_000))).collect();
    assert_eq!(passed, [Some(4), Some(3), Some(2), Some(1), Some(0)]);
    let RateDecision::Refused(standing) = write(1, 4_900) else {
        panic!("the sixth write in five seconds passed");
    };
    assert_eq!(standing.reset_after, Duration::from_millis(100));
    assert_eq!(remaining(&write(2, 4_900)), Some(4));
    assert_eq!(remaining(&write(1, 5_000)), Some(4));
}

#[tokio::test]
async fn the_global_budget_counts_every_bucket_but_exempt_ones() {
    let (mut limits, now) = (Limits::new(Budgets::default()), Instant::now());
    for n in 0..50 {
        assert!(matches!(limits.charge(Bucket::Reads, n, now), RateDecision::Pass(_)));
    }
    let RateDecision::RefusedGlobally(wait) = limits.charge(Bucket::Writes, 1, now) else {
        panic!("the fifty-first request of a second passed");
    };
    assert_eq!(wait, Duration::from_secs(1));
    assert!(matches!(limits.charge(Bucket::Exempt, 0, now), RateDecision::Pass(None)));
    assert!(remaining(&limits.charge(Bucket::Writes, 1, now + wait)).is_some());
}

#[tokio::test]
async fn finished_buckets_are_forgotten() {
    let budgets = Budgets { global: (u32::MAX, Duration::from_secs(1)), ..Budgets::default() };
    let (mut limits, start) = (Limits::new(budgets), Instant::now());
    for n in 0..10_000_u32 {
        limits.charge(Bucket::Reads, u64::from(n), start + n * Duration::from_millis(10));
    }
    assert!(limits.buckets.len() <= BUCKETS);
}
