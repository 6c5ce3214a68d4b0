use proptest::prelude::*;

use super::*;
use crate::ids::Door;

const DOOR: Door = Door::new("discord");

fn is_visible(rules: &[Rule], caller: Caller<'_>, tool: &str) -> bool {
    !hides(rules, caller).any(|hidden| hidden.fits(tool, Effect::Reads, Audience::Everyone))
}

struct Asks {
    person: Person,
    roles: Vec<String>,
    place: Place,
    parent: Option<Place>,
}

impl Asks {
    fn ada() -> Self {
        Self {
            person: Person::new(DOOR, "1"),
            roles: vec!["10".to_owned()],
            place: Place::new(DOOR, "100"),
            parent: Some(Place::new(DOOR, "90")),
        }
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            person: &self.person,
            roles: &self.roles,
            place: &self.place,
            parent: self.parent.as_ref(),
            known: true,
        }
    }
}

fn reads<'a>(tool: &'a str, resources: &'a [&'a str]) -> Call<'a> {
    Call { tool, operation: Operation::Read, resources, mentions: &[], complete: true }
}

#[test]
fn without_a_rule_the_usual_holds() {
    let ada = Asks::ada();
    let decided =
        decide(&[Rule::everywhere("other", Verdict::Deny)], ada.caller(), reads("time__now", &[]), Verdict::Ask);
    assert_eq!(decided, Decided { verdict: Verdict::Ask, rule: None });
}

#[test]
fn the_first_match_decides_and_a_denial_wins_wherever_it_stands() {
    let ada = Asks::ada();
    let rules = [
        Rule::everywhere("fm__read", Verdict::Auto),
        Rule::everywhere("fm__*", Verdict::Ask),
        Rule::everywhere("*__drop", Verdict::Deny),
    ];
    let verdict = |tool| decide(&rules, ada.caller(), reads(tool, &[]), Verdict::Auto).verdict;
    assert_eq!(verdict("fm__read"), Verdict::Auto);
    assert_eq!(verdict("fm__write"), Verdict::Ask);
    assert_eq!(verdict("fm__drop"), Verdict::Deny);
    assert_eq!(verdict("time__now"), Verdict::Auto);
}

#[test]
fn rules_are_about_roles_users_places_and_doors() {
    let ada = Asks::ada();
    let deny = Rule::everywhere("*", Verdict::Deny);
    let text = |id: &str| vec![id.to_owned()];
    for (rule, concerned) in [
        (Rule { roles: text("10"), ..deny.clone() }, true),
        (Rule { roles: text("11"), ..deny.clone() }, false),
        (Rule { users: text("1"), ..deny.clone() }, true),
        (Rule { users: text("2"), ..deny.clone() }, false),
        (Rule { channels: text("100"), ..deny.clone() }, true),
        (Rule { channels: text("90"), ..deny.clone() }, true),
        (Rule { channels: text("91"), ..deny.clone() }, false),
        (Rule { doors: text("discord"), ..deny.clone() }, true),
        (Rule { doors: text("slack"), ..deny.clone() }, false),
        (Rule { except: text("10"), ..deny.clone() }, false),
        (Rule { except: text("11"), ..deny.clone() }, true),
        (Rule { roles: text("10"), except: text("10"), ..deny.clone() }, false),
        (Rule { roles: text("10"), users: text("2"), ..deny.clone() }, false),
    ] {
        let decided = decide(std::slice::from_ref(&rule), ada.caller(), reads("x", &[]), Verdict::Auto);
        assert_eq!(decided.verdict == Verdict::Deny, concerned, "{rule:?}");
        assert_eq!(!is_visible(std::slice::from_ref(&rule), ada.caller(), "x"), concerned, "{rule:?}");
    }
}

#[test]
fn a_denial_needs_one_resource_and_a_permission_all_of_them() {
    let ada = Asks::ada();
    let deny = Rule { resource: Some("secret/*".to_owned()), ..Rule::everywhere("fs__*", Verdict::Deny) };
    let allow = Rule { resource: Some("public/*".to_owned()), ..Rule::everywhere("fs__*", Verdict::Auto) };
    let rules = [deny, allow];
    let verdict = |resources: &[&str]| decide(&rules, ada.caller(), reads("fs__copy", resources), Verdict::Ask).verdict;
    assert_eq!(verdict(&["public/a", "public/b"]), Verdict::Auto);
    assert_eq!(verdict(&["public/a", "private/b"]), Verdict::Ask);
    assert_eq!(verdict(&["public/a", "secret/b"]), Verdict::Deny);
    assert_eq!(verdict(&[]), Verdict::Ask);
    assert!(is_visible(&rules, ada.caller(), "fs__copy"), "some calls of it are allowed");
}

#[test]
fn operations_tell_reading_from_writing() {
    let ada = Asks::ada();
    let rules = [Rule { operation: Some(Operation::Write), ..Rule::everywhere("db_query", Verdict::Deny) }];
    let call = |operation| Call { operation, ..reads("db_query", &["users"]) };
    assert_eq!(decide(&rules, ada.caller(), call(Operation::Read), Verdict::Auto).verdict, Verdict::Auto);
    assert_eq!(decide(&rules, ada.caller(), call(Operation::Write), Verdict::Auto).verdict, Verdict::Deny);
}

#[test]
fn stars_stand_for_any_text() {
    for (pattern, text, fits) in [
        ("*", "", true),
        ("*", "anything", true),
        ("fm__*", "fm__read", true),
        ("fm__*", "fm_read", false),
        ("*read*", "fm__read_all", true),
        ("a*b*c", "aXbYbZc", true),
        ("a*b*c", "aXbYbZ", false),
        ("exact", "exact", true),
        ("exact", "exactly", false),
        ("", "", true),
        ("", "x", false),
    ] {
        assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
    }
}

proptest! {
    #[test]
    fn patterns_agree_with_a_plain_definition(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
        fn plain(pattern: &[u8], text: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'*', rest)) => (0..=text.len()).any(|taken| plain(rest, &text[taken..])),
                Some((byte, rest)) => text.first() == Some(byte) && plain(rest, &text[1..]),
            }
        }
        prop_assert_eq!(matches(&pattern, &text), plain(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn what_is_denied_stays_denied_whatever_else_is_written(
        verdicts in proptest::collection::vec(prop_oneof![Just(Verdict::Auto), Just(Verdict::Ask)], 0..6), at in 0_usize..6,
    ) {
        let mut rules: Vec<Rule> = verdicts.into_iter().map(|verdict| Rule::everywhere("*", verdict)).collect();
        rules.insert(at.min(rules.len()), Rule::everywhere("fm__*", Verdict::Deny));
        let ada = Asks::ada();
        prop_assert_eq!(decide(&rules, ada.caller(), reads("fm__x", &[]), Verdict::Auto).verdict, Verdict::Deny);
        prop_assert!(!is_visible(&rules, ada.caller(), "fm__x"));
    }
}

#[test]
fn only_these_roles_is_a_denial_with_an_exception() {
    let rules = [Rule { except: vec!["10".to_owned()], ..Rule::everywhere("image__*", Verdict::Deny) }];
    let verdict = |caller| decide(&rules, caller, reads("image__draw", &[]), Verdict::Auto).verdict;
    let ada = Asks::ada();
    assert_eq!(verdict(ada.caller()), Verdict::Auto);
    assert!(is_visible(&rules, ada.caller(), "image__draw"));
    let ben = Asks { roles: vec!["12".to_owned()], ..Asks::ada() };
    assert_eq!(verdict(ben.caller()), Verdict::Deny);
    assert!(!is_visible(&rules, ben.caller(), "image__draw"));
    let elsewhere = Caller { known: false, ..ada.caller() };
    assert_eq!(verdict(elsewhere), Verdict::Deny, "a role id of another door opens nothing");
}
