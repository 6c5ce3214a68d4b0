use proptest::prelude::*;

use super::*;

/// 2026-11-16, a Monday.
const MONDAY: u64 = 1_794_787_200_000;

fn at(weekday: u64, hour: u64, minute: u64) -> Timestamp {
    Timestamp(MONDAY + (weekday * DAY + hour) * HOUR + minute * 60_000)
}

fn schedule(start: u8, end: u8, days: &[u8]) -> Schedule {
    Schedule { start, end, days: days.to_vec() }
}

/// The number of hours in a week, after which everything repeats.
const WEEK: u64 = 7 * DAY;

const ALL: [u8; 7] = [0, 1, 2, 3, 4, 5, 6];

#[test]
fn the_last_hour_is_not_included() {
    let office = schedule(9, 17, &ALL);
    assert!(!office.is_active(at(0, 8, 59)));
    assert!(office.is_active(at(0, 9, 0)));
    assert!(office.is_active(at(0, 16, 59)));
    assert!(!office.is_active(at(0, 17, 0)));
    assert!(!schedule(0, 23, &ALL).is_active(at(0, 23, 30)), "the default of old leaves out the last hour");
    assert!(schedule(0, 24, &ALL).is_active(at(0, 23, 30)));
}

#[test]
fn hours_may_go_over_midnight() {
    let night = schedule(22, 6, &ALL);
    for (hour, active) in [(21, false), (22, true), (23, true), (0, true), (5, true), (6, false), (12, false)] {
        assert_eq!(night.is_active(at(2, hour, 30)), active, "{hour}");
    }
    // A night that begins on a Friday ends at midnight: the hours after it belong to Saturday.
    let friday = schedule(22, 6, &[4]);
    assert!(friday.is_active(at(4, 23, 0)) && friday.is_active(at(4, 1, 0)));
    assert!(!friday.is_active(at(5, 1, 0)));
}

#[test]
fn days_count_from_monday_in_any_order() {
    let weekend = schedule(0, 24, &[6, 5]);
    let active: Vec<u64> = (0..7).filter(|day| weekend.is_active(at(*day, 12, 0))).collect();
    assert_eq!(active, [5, 6]);
    assert!(!schedule(0, 24, &[]).is_active(at(0, 12, 0)));
}

proptest! {
    #[test]
    fn turning_the_hours_round_turns_activity_round(start in 0_u8..24, end in 0_u8..24, hour in 0..WEEK) {
        prop_assume!(start != end);
        let moment = Timestamp(MONDAY + hour * HOUR);
        let day = Schedule { start, end, days: ALL.to_vec() };
        let night = Schedule { start: end, end: start, days: ALL.to_vec() };
        prop_assert_ne!(day.is_active(moment), night.is_active(moment));
    }

    #[test]
    fn every_week_is_alike(start in 0_u8..24, end in 0_u8..=24, day in 0_u8..7, offset in 0..WEEK * HOUR) {
        let schedule = Schedule { start, end, days: vec![day] };
        let this = schedule.is_active(Timestamp(MONDAY + offset));
        prop_assert_eq!(this, schedule.is_active(Timestamp(MONDAY + offset + WEEK * HOUR)));
    }
}
