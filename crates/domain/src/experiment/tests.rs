use super::*;
use crate::ids::Door;

fn arms(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn experiment(name: &str, texts: &[&str]) -> Experiment {
    Experiment::new(name, Subject::Models, &arms(texts)).unwrap()
}

fn person(number: u32) -> Person {
    Person::new(Door::new("discord"), number.to_string())
}

#[test]
fn a_member_keeps_an_arm_and_the_shares_hold() {
    let split = experiment("cheaper", &["main 60", "mini 30"]);
    let arm = |number| split.arm_of(&person(number)).map(|arm| arm.name.clone());
    let of = |name: Option<&str>| (0..10_000).filter(|number| arm(*number).as_deref() == name).count();
    let shares = [of(Some("main")), of(Some("mini")), of(None)];
    assert_eq!(shares.iter().sum::<usize>(), 10_000);
    for (share, expected) in shares.into_iter().zip([6_000_usize, 3_000, 1_000]) {
        assert!(share.abs_diff(expected) < 200, "{share} of {expected}");
    }
    // Fixed values: a changed hash would move members to other arms during an experiment.
    let fixed: Vec<_> = (1..=6).map(|number| arm(number).unwrap_or_default()).collect();
    assert_eq!(fixed.join(","), "main,mini,,mini,main,main");
    let other = experiment("other", &["main 60", "mini 30"]);
    let moved = (0..1_000).filter(|number| arm(*number) != other.arm_of(&person(*number)).map(|arm| arm.name.clone()));
    assert!(moved.count() > 200, "experiments split members independently");
}

#[test]
fn mistakes_say_what_to_write() {
    for (name, texts, expected) in [
        ("Big", vec!["main 50"], "lower-case"),
        ("", vec!["main 50"], "lower-case"),
        ("a", vec![], "1 to 8 arms"),
        ("a", vec!["main"], "such as"),
        ("a", vec!["main 0"], "such as"),
        ("a", vec!["main 101"], "such as"),
        ("a", vec!["ma{in 10"], "such as"),
        ("a", vec!["main 50", "main 20"], "twice"),
        ("a", vec!["main 60", "mini 50"], "more than 100"),
    ] {
        let mistake = Experiment::new(name, Subject::Models, &arms(&texts)).unwrap_err();
        assert!(mistake.contains(expected), "{mistake}");
    }
    assert_eq!(experiment("a", &["qwen3:8b 100%"]).arms, [Arm { name: "qwen3:8b".to_owned(), percent: 100 }]);
}

#[test]
fn thumbs_of_any_colour_and_spelling_are_votes() {
    for emoji in ["👍", "👍🏽", "+1", "thumbsup", "+1::skin-tone-3"] {
        assert_eq!(Vote::of(emoji), Some(Vote::Up), "{emoji}");
    }
    for emoji in ["👎", "👎🏿", "-1", "thumbsdown"] {
        assert_eq!(Vote::of(emoji), Some(Vote::Down), "{emoji}");
    }
    for emoji in ["", "❤", "thumbs", "1"] {
        assert_eq!(Vote::of(emoji), None, "{emoji}");
    }
}
