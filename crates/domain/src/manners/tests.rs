use proptest::prelude::*;

use super::*;
use crate::ids::Door;

const NEUTRAL: InterjectionRules<'_> = InterjectionRules {
    consider: 1.0,
    deliver: 1.0,
    only: &[],
    muted: &[],
    cooldown: Duration::ZERO,
    backoff_after: 0,
    tokens_per_hour: 0,
};
const SURE: Draw = Draw { consider: 0.0, deliver: 0.0 };

fn place(id: u64) -> Place {
    Place::new(Door::new("discord"), id.to_string())
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn join(
    manners: &mut Manners,
    rules: &InterjectionRules<'_>,
    draw: Draw,
    seconds: u64,
) -> Result<(), SuppressionReason> {
    manners.join(rules, &place(1), None, draw, at(seconds))
}

#[test]
fn both_chances_mean_what_they_say() {
    let rules = InterjectionRules { consider: 0.05, deliver: 0.3, ..NEUTRAL };
    let mut manners = Manners::default();
    for (consider, deliver, joins) in
        [(0.049, 0.299, true), (0.05, 0.1, false), (0.01, 0.3, false), (0.0, 0.0, true), (0.99, 0.99, false)]
    {
        let said = join(&mut manners, &rules, Draw { consider, deliver }, 0);
        assert_eq!(said.is_ok(), joins, "{consider} {deliver}");
    }
    let never = InterjectionRules { consider: 0.0, ..NEUTRAL };
    assert_eq!(join(&mut manners, &never, SURE, 0), Err(SuppressionReason::Chance));
}

#[test]
fn places_are_chosen_and_threads_follow_their_channel() {
    let mut manners = Manners::default();
    let mut try_in = |rules: &InterjectionRules<'_>, id: u64, parent: Option<u64>| {
        manners.join(rules, &place(id), parent.map(place).as_ref(), SURE, Duration::ZERO).is_ok()
    };
    let (seven, eight) = (["7".to_owned()], ["8".to_owned()]);
    let only = InterjectionRules { only: &seven, ..NEUTRAL };
    assert!(try_in(&only, 7, None) && try_in(&only, 8, Some(7)) && !try_in(&only, 8, None));
    let muted = InterjectionRules { muted: &seven, ..NEUTRAL };
    assert!(!try_in(&muted, 7, None) && !try_in(&muted, 8, Some(7)) && try_in(&muted, 8, None));
    let both = InterjectionRules { only: &seven, muted: &eight, ..NEUTRAL };
    assert!(!try_in(&both, 8, Some(7)), "muted wins");
}

#[test]
fn a_place_rests_between_two() {
    let rules = InterjectionRules { cooldown: at(60), ..NEUTRAL };
    let mut manners = Manners::default();
    assert_eq!(join(&mut manners, &rules, SURE, 0), Ok(()));
    assert_eq!(join(&mut manners, &rules, SURE, 59), Err(SuppressionReason::Cooldown));
    assert_eq!(manners.join(&rules, &place(2), None, SURE, at(59)), Ok(()), "other places do not");
    assert_eq!(join(&mut manners, &rules, SURE, 60), Ok(()));
}

#[test]
fn what_nobody_cares_for_becomes_rarer_until_somebody_does() {
    let rules = InterjectionRules { backoff_after: 2, ..NEUTRAL };
    let mut manners = Manners::default();
    let draw = |consider| Draw { consider, deliver: 0.0 };
    for second in 0..2 {
        assert_eq!(join(&mut manners, &rules, draw(0.9), second), Ok(()));
        manners.said(&place(1), at(second));
    }
    assert_eq!(join(&mut manners, &rules, draw(0.5), 3), Err(SuppressionReason::Chance), "halved");
    assert_eq!(join(&mut manners, &rules, draw(0.49), 3), Ok(()));
    manners.said(&place(1), at(3));
    assert_eq!(join(&mut manners, &rules, draw(0.25), 4), Err(SuppressionReason::Chance), "and again");
    manners.record_engagement(&place(1), at(3) + WELCOME_WITHIN + at(1));
    assert_eq!(join(&mut manners, &rules, draw(0.25), 5), Err(SuppressionReason::Chance), "that came too late");
    manners.record_engagement(&place(1), at(10));
    assert_eq!(join(&mut manners, &rules, draw(0.99), 11), Ok(()));
    for second in 20..60 {
        manners.said(&place(1), at(second));
    }
    assert_eq!(join(&mut manners, &rules, draw(0.0009), 61), Ok(()), "never quite nothing");
    let day = FORGOTTEN_AFTER.as_secs() + 61;
    assert_eq!(join(&mut manners, &rules, draw(0.99), day), Ok(()), "forgotten");
}

#[test]
fn tokens_of_an_hour_are_counted() {
    let rules = InterjectionRules { tokens_per_hour: 1_000, ..NEUTRAL };
    let mut manners = Manners::default();
    manners.spent(600, at(0));
    assert_eq!(join(&mut manners, &rules, SURE, 10), Ok(()));
    manners.spent(400, at(20));
    assert_eq!(join(&mut manners, &rules, SURE, 30), Err(SuppressionReason::Budget));
    assert_eq!(join(&mut manners, &NEUTRAL, SURE, 30), Ok(()), "without a budget, tokens are not counted");
    assert_eq!(join(&mut manners, &rules, SURE, 3_600), Ok(()), "the first are over");
}

#[test]
fn its_memory_is_bounded() {
    let mut manners = Manners::default();
    for id in 0..PLACES_MAX as u64 + 10 {
        manners.join(&NEUTRAL, &place(id), None, SURE, at(id)).unwrap();
        manners.spent(1, at(0));
    }
    assert_eq!(manners.places.len(), PLACES_MAX);
    assert!(!manners.places.contains_key(&place(9)) && manners.places.contains_key(&place(10)));
    assert_eq!(manners.spent.len(), SUMS_MAX);
    assert_eq!(manners.spent_lately(at(1)), PLACES_MAX as u64 + 10);
}

proptest! {
    #[test]
    fn manners_never_make_it_likelier(
        draws in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64, 0_u64..200, any::<bool>()), 1..100),
        cooldown in 0_u64..100, backoff_after in 0_u32..4,
    ) {
        let rules = InterjectionRules { consider: 0.5, deliver: 0.5, cooldown: at(cooldown), backoff_after, ..NEUTRAL };
        let (mut manners, mut now) = (Manners::default(), 0);
        let mut last = None;
        for (consider, deliver, step, record_engagement) in draws {
            now += step;
            if record_engagement {
                manners.record_engagement(&place(1), at(now));
            }
            if join(&mut manners, &rules, Draw { consider, deliver }, now).is_ok() {
                prop_assert!(consider < 0.5 && deliver < 0.5);
                if let Some(last) = last.replace(now) {
                    prop_assert!(now - last >= cooldown);
                }
                manners.said(&place(1), at(now));
            }
        }
    }
}
