use proptest::prelude::*;
use serde_json::json;

use super::allowance::{Allowance, GatedCall};
use super::*;
use crate::command::{Callback, CallbackToken};

const DOOR: Door = Door::new("discord");
const BEGAN: Timestamp = Timestamp(1_000_000);
const ENDS: Timestamp = Timestamp(1_900_000);

fn person(number: u8) -> Person {
    Person::new(DOOR, number.to_string())
}

fn place(number: u8) -> Place {
    Place::new(DOOR, number.to_string())
}

fn hash(number: u8) -> ArgumentsHash {
    ArgumentsHash(format!("{number:064x}"))
}

fn gate(approvers: &[&str]) -> Gate {
    let turn = TurnId::of(&MessageId::new(DOOR, "9"));
    Gate {
        id: GateId::draw([0.1, 0.2, 0.3, 0.4], &turn, &hash(1), BEGAN),
        turn,
        place: place(1),
        requester: person(1),
        unattended: false,
        locale: None,
        approvers: approvers.iter().map(|role| (*role).to_owned()).collect(),
        tool: "fm__delete".to_owned(),
        hash: hash(1),
        arguments: "{}".to_owned(),
        subject: Subject::Approval,
        asked_at: BEGAN,
        expires_at: ENDS,
    }
}

fn member(number: u8, roles: &[&str]) -> Clicker {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Clicker::Member(Caller { person: person(number), name: String::new(), roles, locale: None, operator: false })
}

fn click(gate: &Gate, choice: Choice, by: Clicker) -> Click {
    Click { gate: gate.id.clone(), choice, answers: Map::new(), by, place: Some(gate.place.clone()), callback: None }
}

#[test]
fn the_person_who_asked_decides_unless_a_rule_names_others() {
    let own = gate(&[]);
    assert!(own.is_for(&member(1, &[])) && !own.is_for(&member(2, &["mods"])));
    let theirs = gate(&["mods"]);
    assert!(theirs.is_for(&member(2, &["x", "mods"])) && !theirs.is_for(&member(1, &[])));
    assert!(theirs.is_for(&member(1, &["mods"])), "who asks may be an approver as well");
    // A program speaks for the requester at its own door, and for no role.
    assert!(own.is_for(&Clicker::Client(DOOR, None)) && !own.is_for(&Clicker::Client(Door::new("terminal"), None)));
    assert!(!theirs.is_for(&Clicker::Client(DOOR, None)));
}

#[test]
fn each_click_that_decides_nothing_says_why() {
    let gate = gate(&[]);
    let mut case = Case::open(gate.clone());
    let good = click(&gate, Choice::Once, member(1, &[]));
    let forged = Click { gate: GateId::parse(&"0".repeat(32)).unwrap(), ..good.clone() };
    let elsewhere = Click { place: Some(place(2)), ..good.clone() };
    assert_eq!(case.click(&forged, BEGAN), Err(ClickRefusal::Unknown));
    assert_eq!(case.click(&elsewhere, BEGAN), Err(ClickRefusal::WrongPlace));
    assert_eq!(case.click(&click(&gate, Choice::Once, member(2, &[])), BEGAN), Err(ClickRefusal::NotTheirs));
    assert_eq!(case.click(&good, ENDS), Err(ClickRefusal::Expired));
    assert_eq!(case.click(&good, BEGAN), Ok(ApprovalDecision::Approved { by: Some(person(1)) }));
    assert_eq!(case.click(&click(&gate, Choice::Deny, member(1, &[])), BEGAN), Err(ClickRefusal::Decided));
    assert_eq!(case.expire(ENDS), None, "what is decided stays so");
    assert!(case.lets_run(&hash(1), &[]));
    assert!(!case.lets_run(&hash(2), &[]), "other arguments, or another tool");
    assert!(!case.lets_run(&hash(1), &["mods".to_owned()]), "the rule names others now");
}

/// An event that may happen to a gate.
#[derive(Debug, Clone)]
enum Happening {
    Click { forged: bool, place: u8, person: u8, mod_role: bool, choice: Choice },
    Time(u64),
    Restart,
    Run(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    let choice = prop_oneof![Just(Choice::Once), Just(Choice::Hour), Just(Choice::Deny)];
    prop_oneof![
        4 => (prop::bool::weighted(0.2), 1..3u8, 1..4u8, any::<bool>(), choice).prop_map(
            |(forged, place, person, mod_role, choice)| Happening::Click { forged, place, person, mod_role, choice }
        ),
        2 => (0..600_000u64).prop_map(Happening::Time),
        1 => Just(Happening::Restart),
        3 => (1..3u8).prop_map(Happening::Run),
    ]
}

proptest! {
    /// For any sequence of events: a call runs only after a click of an authorized decider, in the right place, in
    /// time, and only as shown. A gate is decided once, and a restart changes nothing.
    #[test]
    fn nothing_runs_that_the_right_one_did_not_approve(
        named in any::<bool>(), happenings in prop::collection::vec(happening(), 0..40)
    ) {
        let gate = gate(if named { &["mods"] } else { &[] });
        let mut case = Case::open(gate.clone());
        let (mut now, mut approved, mut decisions) = (BEGAN, false, 0);
        for happening in happenings {
            match happening {
                Happening::Click { forged, place: at, person: who, mod_role, choice } => {
                    let by = member(who, if mod_role { &["mods"] } else { &["others"] });
                    let mut click = Click { place: Some(place(at)), ..click(&gate, choice, by) };
                    if forged {
                        click.gate = GateId::parse(&"f".repeat(32)).unwrap();
                    }
                    let right = if named { mod_role } else { who == 1 };
                    let valid = !forged && at == 1 && right && now < ENDS && decisions == 0;
                    let decided = case.click(&click, now);
                    prop_assert_eq!(decided.is_ok(), valid);
                    decisions += u32::from(decided.is_ok());
                    approved |= valid && choice != Choice::Deny;
                }
                Happening::Time(passed) => {
                    now.0 += passed;
                    decisions += u32::from(case.expire(now).is_some());
                }
                Happening::Restart => {
                    let stored = serde_json::to_string(&case).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<Case>(&stored).unwrap(), &case);
                }
                Happening::Run(number) => {
                    let runs = case.lets_run(&hash(number), &gate.approvers);
                    prop_assert_eq!(runs, approved && number == 1);
                }
            }
            prop_assert!(decisions <= 1);
        }
    }

    #[test]
    fn only_our_own_buttons_are_read(name in ".{0,60}") {
        prop_assert!(Choice::of_button(&name).is_none_or(|(gate, choice)| choice.button(&gate) == name));
    }
}

#[test]
fn buttons_carry_the_gate_and_the_choice_alone() {
    let gate = gate(&[]);
    for choice in Choice::ALL {
        let button = choice.button(&gate.id);
        assert!(button.len() <= 100, "{button}");
        assert_eq!(Choice::of_button(&button), Some((gate.id.clone(), choice)));
    }
    for foreign in ["", "gate", "gate:", "gate:1:once", "vote:00000000000000000000000000000000:once"] {
        assert_eq!(Choice::of_button(foreign), None, "{foreign}");
    }
}

#[test]
fn ids_differ_whatever_chance_does() {
    let turn = |id: &str| TurnId::of(&MessageId::new(DOOR, id));
    let id = |turn: &TurnId, number, now| GateId::draw([0.5; 4], turn, &hash(number), now);
    let ids = [
        id(&turn("1"), 1, BEGAN),
        id(&turn("2"), 1, BEGAN),
        id(&turn("1"), 2, BEGAN),
        id(&turn("1"), 1, ENDS),
        GateId::draw([0.25; 4], &turn("1"), &hash(1), BEGAN),
    ];
    for (at, one) in ids.iter().enumerate() {
        assert!(GateId::parse(one.as_str()).is_some() && !ids[..at].contains(one), "{one}");
    }
}

#[test]
fn arguments_are_shown_as_they_are_and_nothing_in_them_hides() {
    let show = |value: Value| shown(value.as_object().unwrap());
    assert_eq!(show(json!({"path": "/tmp/ä 漢", "n": 1})), "{\n  \"n\": 1,\n  \"path\": \"/tmp/ä 漢\"\n}");
    let hidden = json!({"a": "x\u{202e}y\u{200b}z\u{e0041}\u{a0}"});
    let text = show(hidden.clone());
    assert!(text.contains(r"x\u202ey\u200bz\udb40\udc41\u00a0"), "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), hidden, "it reads as what it is");
    for (value, expected) in [
        ("e\u{301}x\u{336}", r"e\u0301x\u0336"),
        ("/srv/\u{5d0}\u{5d1}/1.txt", r"/srv/\u05d0\u05d1/1.txt"),
        ("\u{5d0}\u{5d1} 10", r"\u05d0\u05d1 10"),
        ("a\"b\u{5d0}", r#"a\"b\u05d0"#),
        ("\u{5e9}\u{5dc}\u{5d5}\u{5dd}, \u{5d0}.", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}, \u{5d0}."),
        ("\u{915}\u{93f}\u{924}\u{93e}\u{92c}", "\u{915}\u{93f}\u{924}\u{93e}\u{92c}"),
        ("\u{e01}\u{e34}\u{e49}\u{e34}\u{e34}", "\u{e01}\u{e34}\u{e49}\\u0e34\\u0e34"),
        ("\u{93f}1\u{93f}", r"\u093f1\u093f"),
    ] {
        let arguments = json!({ "a": value });
        let text = show(arguments.clone());
        assert_eq!(text, format!("{{\n  \"a\": \"{expected}\"\n}}"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), arguments);
    }
    let key = show(json!({"\u{5d0}": {"\u{5d0}": []}}));
    assert!(!key.contains('\u{5d0}'), "names of fields are never reordered: {key}");
    for run in 1..=20 {
        let ticks = json!({"a": "`".repeat(run)});
        let text = show(ticks.clone());
        assert!(!text.contains('`') && serde_json::from_str::<Value>(&text).unwrap() == ticks, "{text}");
    }
    let large = json!({"a": "x".repeat(ARGUMENTS_MAX)});
    assert_eq!(arguments(large.as_object().unwrap()), None);
}

#[test]
fn letters_and_signs_that_pass_for_others_are_spelled_out() {
    for (value, expected) in [
        // Words that mix scripts.
        ("p\u{430}th /\u{435}tc a\u{440}i", r"p\u0430th /\u0435tc a\u0440i"),
        ("\u{3bf}k \u{ff41}bc \u{1d41a}bc \u{2170}d", r"\u03bfk \uff41bc \ud835\udc1abc \u2170d"),
        // Words of one script, side by side and after escapes.
        ("отчёт.txt report \nпривет\tмир", r"отчёт.txt report \nпривет\tмир"),
        ("κόσμε, Ünïcode naïve Škoda", "κόσμε, Ünïcode naïve Škoda"),
        ("漢字ab カナab", "漢字ab カナab"),
        // Signs.
        ("\u{2215}etc\u{2044}x \u{2024}\u{2024}/", r"\u2215etc\u2044x \u2024\u2024/"),
        (
            "a\u{ff20}b\u{ff0e}c http\u{ff1a}\u{ff0f}\u{ff0f}x \u{1c3}",
            r"a\uff20b\uff0ec http\uff1a\uff0f\uff0fx \u01c3",
        ),
        ("ファイル：はい！", "ファイル：はい！"),
        ("c\u{2236}\u{2216}\u{ff3c}", r"c\u2236\u2216\uff3c"),
    ] {
        let arguments = json!({ "a": value });
        let text = shown(arguments.as_object().unwrap());
        assert_eq!(text, format!("{{\n  \"a\": \"{expected}\"\n}}"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), arguments);
    }
    let key = shown(json!({"p\u{430}th": 1}).as_object().unwrap());
    assert!(key.contains(r"p\u0430th"), "{key}");
    let mixed = |size: usize| json!({"a": "a\u{430}\\n".repeat(size / 4)});
    cost::grows_linearly(16 * 1024, mixed, |arguments| drop(shown(arguments.as_object().unwrap())));
}

#[test]
fn long_arguments_are_asked_about_with_their_beginning_end_length_and_hash_beside_the_file() {
    use crate::layout::lay_out;
    use crate::notice::gate::asking;
    use crate::outgoing::Capabilities;

    let door =
        Capabilities { cards: 10, files: 10, file_bytes: 1_000_000, buttons: 5, ..Capabilities::text_only(2_000) };
    for (length, in_a_file) in [(1_700, false), (6_000, true), (32_000, true)] {
        let text = shown(json!({"a": format!("begin{}end", "x".repeat(length))}).as_object().unwrap());
        let asked = Gate { arguments: text.clone(), ..gate(&[]) };
        let pieces = lay_out(&asking(&asked), &door);
        let [piece] = &pieces[..] else { panic!("one message with the buttons below it: {pieces:?}") };
        assert_eq!((piece.files.len(), piece.buttons.len()), (usize::from(in_a_file), 3));
        if in_a_file {
            let hash = hex(&Sha256::digest(piece.files[0].bytes.as_ref()));
            assert_eq!(piece.files[0].bytes.len(), text.len());
            let characters = text.chars().count().to_string();
            for part in ["begin", "end\"", &hash, &characters] {
                assert!(piece.text.contains(part), "{part} in {}", piece.text);
            }
        }
    }
}

#[test]
fn an_allowance_holds_for_the_same_call_in_the_same_place_for_an_hour() {
    let own = Allowance::of(&gate(&[]), &member(1, &[]), BEGAN);
    let (hash_1, hash_2) = (hash(1), hash(2));
    let (ada, ben) = (person(1), person(2));
    let (here, there) = (place(1), place(2));
    let mods = ["mods".to_owned()];
    let asked = GatedCall { hash: &hash_1, person: &ada, place: &here, approvers: &[] };
    assert!(own.lets_run(&asked, BEGAN));
    for (other, now) in [
        (GatedCall { hash: &hash_2, ..asked }, BEGAN),
        (GatedCall { person: &ben, ..asked }, BEGAN),
        (GatedCall { place: &there, ..asked }, BEGAN),
        (GatedCall { approvers: &mods, ..asked }, BEGAN),
        (asked, Timestamp(BEGAN.0 + 3_600_000)),
    ] {
        assert!(!own.lets_run(&other, now), "{other:?}");
    }
    let theirs = Allowance::of(&gate(&["mods"]), &member(3, &["mods"]), BEGAN);
    assert!(
        theirs.lets_run(&GatedCall { person: &ben, approvers: &mods, ..asked }, BEGAN),
        "an approver's word is for all"
    );
    assert!(theirs.concerns(&person(3)) && !theirs.concerns(&ben));
}

#[test]
fn clicks_show_no_secret() {
    let token = CallbackToken::new("very-secret".to_owned());
    let callback = Callback { id: MessageId::new(DOOR, "1"), application: "2".to_owned(), token };
    let click = Click { callback: Some(callback), ..click(&gate(&[]), Choice::Once, member(1, &[])) };
    assert!(!format!("{click:?}").contains("very-secret"));
    assert_eq!(click.id(), Some(&MessageId::new(DOOR, "1")));
}

#[test]
fn what_is_no_person_is_named_and_never_mentioned() {
    let asked = gate(&[]);
    assert_eq!(asked.asker(), format!("<@{}>", asked.requester.id));
    let requester = Person::new(asked.place.door.clone(), "webhook-ci");
    assert_eq!(Gate { requester, unattended: true, ..asked }.asker(), "`webhook-ci`");
}
