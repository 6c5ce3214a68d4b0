use std::fmt::Write;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use std::sync::Arc;

use super::*;
use crate::{DOOR, events};
use domain::ids::Person;
use domain::incoming::Seen;
use domain::triage::{TriageDecision, TriageRules, triage};
use ports::Dice;

const ME: u64 = 1_234_567_890;
const OTHER: u64 = 77_123;

fn filter(names: &[&str], direct: bool) -> Filter {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Filter::new(UserId::new(ME), &names, direct)
}

#[test]
fn the_head_is_read_in_the_usual_order_only() {
    let told = head(r#"{"t":"MESSAGE_CREATE","s":42,"op":0,"d":{"id":"1"}}"#);
    let expected = Head { kind: "MESSAGE_CREATE", sequence: 42 };
    assert_eq!(told, Some(expected));
    for other in [
        r#"{"op":0,"t":"MESSAGE_CREATE","s":42,"d":{}}"#,
        r#"{"t":null,"s":null,"op":10,"d":{"heartbeat_interval":1}}"#,
        r#"{"t":"X","s":-1,"op":0,"d":{}}"#,
        r#"{"t":"X","s":99999999999999999999999,"op":0,"d":{}}"#,
        r#"{"t":"\u004d","s":1,"op":0,"d":{}}"#,
        r#"{"t":"X","s":1,"op":7,"d":{}}"#,
        r#"{"t":"X"#,
        "",
    ] {
        assert_eq!(head(other), None, "{other}");
    }
}

#[test]
fn chatter_is_passed_over() {
    let chatter =
        r#"{"t":"MESSAGE_CREATE","s":1,"op":0,"d":{"id":"5","guild_id":"9","content":"staff meeting","mentions":[]}}"#;
    assert!(!filter(&["staffai"], true).may_be_ours(chatter));
    assert!(!filter(&[], false).may_be_ours(chatter));
    assert!(filter(&["STAFF"], false).may_be_ours(chatter));
}

#[test]
fn names_are_found_whatever_their_case_or_alphabet() {
    let frame = |content: &str| json!({"d": {"guild_id": "9", "content": content}}).to_string();
    assert!(filter(&["Äffchen"], false).may_be_ours(&frame("hallo ÄFFCHEN")));
    // The Kelvin sign is a `k` in lower case.
    assert!(filter(&["kit"], false).may_be_ours(&frame("hey \u{212a}it")));
    assert!(filter(&["a\"b"], false).may_be_ours(&frame("so a\"B then")));
    assert!(filter(&["a/b"], false).may_be_ours(r#"{"d":{"guild_id":"9","content":"A\/B"}}"#));
    assert!(filter(&["äh"], false).may_be_ours(r#"{"d":{"guild_id":"9","content":"\u00c4H"}}"#));
    assert!(!filter(&["", "  "], false).may_be_ours(&frame("anything")));
    assert!(!filter(&["äh"], false).may_be_ours(&frame("plain")));
}

#[test]
fn a_direct_message_that_forwards_from_a_guild_stays_direct() {
    let forward = r#"{"t":"MESSAGE_CREATE","s":1,"op":0,"d":{"message_reference":{"type":1,"guild_id":"9"},"referenced_message":null}}"#;
    assert!(filter(&[], true).may_be_ours(forward));
    assert!(!filter(&[], false).may_be_ours(forward));
}

fn user() -> impl Strategy<Value = Value> {
    prop_oneof![Just(ME), Just(OTHER), 1..u64::MAX].prop_map(|id| json!({"id": id.to_string(), "username": "somebody"}))
}

/// A message of the bot, as a lookup returns it.
fn ours() -> Seen {
    let (author, name, text) = (Person::new(DOOR, ME.to_string()), "StaffAI".to_owned(), "an answer".to_owned());
    Seen { author, name, ours: true, text, attachments: Vec::new(), answers: None }
}

fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        Just("StaffAI".to_owned()),
        Just("sTAFFai".to_owned()),
        Just("\u{212a}it Éva".to_owned()),
        Just("東京".to_owned()),
        Just(format!("<@{ME}>")),
        Just("\"guild_id\":\"1\" \"referenced_message\" \\ / \n".to_owned()),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// A message with all variants of the relevant parts: missing, null, of the bot, of another account.
fn message() -> impl Strategy<Value = Value> {
    let quoted = prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        (user(), content())
            .prop_map(|(author, content)| Some(json!({"id": "8", "author": author, "content": content}))),
    ];
    let reference = prop_oneof![
        Just(None),
        Just(Some(json!({"message_id": "8", "channel_id": "5", "guild_id": "9"}))),
        Just(Some(json!({"type": 1, "message_id": "8", "channel_id": "5", "guild_id": "9"}))),
    ];
    let guild = prop_oneof![Just(None), Just(Some(Value::Null)), Just(Some(json!("9")))];
    let mentions = prop::collection::vec(user(), 0..3);
    (user(), content(), mentions, quoted, reference, guild, any::<bool>()).prop_map(
        |(author, content, mentions, quoted, reference, guild, inline)| {
            let mut message = json!({"id": "6", "channel_id": "5", "author": author, "content": content,
                "mentions": mentions, "type": if inline { 19 } else { 0 }});
            for (key, part) in [("referenced_message", quoted), ("message_reference", reference), ("guild_id", guild)] {
                if let Some(part) = part {
                    message[key] = part;
                }
            }
            message
        },
    )
}

/// Returns the frame as text, with this order of keys and, if requested, with non-ASCII characters as escapes.
fn frame(message: &Value, order: &[usize], outer: &[usize], escaped: bool) -> String {
    let fields: Vec<(&String, &Value)> = message.as_object().map(Map::iter).into_iter().flatten().collect();
    let mut ordered: Vec<_> = fields.iter().enumerate().collect();
    ordered.sort_by_key(|(index, _)| order.get(*index).copied());
    let fields: Vec<String> = ordered.iter().map(|(_, (key, value))| format!("\"{key}\":{value}")).collect();
    let data = format!("{{{}}}", fields.join(","));
    let parts =
        ["\"t\":\"MESSAGE_CREATE\"".to_owned(), "\"s\":3".to_owned(), "\"op\":0".to_owned(), format!("\"d\":{data}")];
    let mut parts: Vec<_> = parts.iter().enumerate().collect();
    parts.sort_by_key(|(index, _)| outer.get(*index).copied());
    let parts: Vec<&str> = parts.iter().map(|(_, part)| part.as_str()).collect();
    let text = format!("{{{}}}", parts.join(","));
    if escaped { escape(&text) } else { text }
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The filter passes every message that triage does not ignore, after the quoted message is looked up.
    #[test]
    fn the_filter_drops_no_message_that_triage_would_answer(
        message in message(),
        order in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
        outer in prop_oneof![
            Just(vec![0, 1, 2, 3]),
            Just((0..4).collect::<Vec<usize>>()).prop_shuffle(),
        ],
        escaped in any::<bool>(),
        direct in any::<bool>(),
        named in any::<bool>(),
    ) {
        let names: &[&str] = if named { &["StaffAI", "kit éva", "東京"] } else { &[] };
        let text = frame(&message, &order, &outer, escaped);
        let whole: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&whole["d"], &message);
        let mut posted = events::posted(&whole["d"].to_string(), UserId::new(ME), None).unwrap();
        // A null says that the quoted message was deleted; without the key, Discord did not look it up, and the bot may
        // be its author.
        if let Some(quoted) = posted.reply_to.as_mut().filter(|_| message.get("referenced_message").is_none()) {
            quoted.seen = Some(ours());
        }
        let aliases = names.iter().map(|name| (*name).to_owned()).collect();
        let rules = TriageRules { aliases, direct_messages: direct, ..TriageRules::default() };
        let decision = triage(&posted, &rules, &Person::new(DOOR, ME.to_string()));
        if !matches!(decision, TriageDecision::Ignore(_)) {
            prop_assert!(filter(names, direct).may_be_ours(&text), "{:?}: {}", decision, text);
        }
        if let Some(head) = head(&text) {
            prop_assert_eq!((head.kind, head.sequence), ("MESSAGE_CREATE", 3));
        }
    }

    /// No text makes the head or the filter panic, and the head agrees with a full parse.
    #[test]
    fn any_text_is_survived(text in any::<String>(), kind in "[A-Z_]{0,20}", sequence in any::<u64>()) {
        let _ = (head(&text), filter(&["x"], true).may_be_ours(&text));
        let text = format!("{{\"t\":{},\"s\":{sequence},\"op\":0,\"d\":{{}}}}", json!(kind));
        let found = head(&text).unwrap();
        prop_assert_eq!((found.kind, found.sequence), (kind.as_str(), sequence));
    }
}

/// Dice that show these values once.
struct Rolls(parking_lot::Mutex<Vec<f64>>);

impl Dice for Rolls {
    fn roll(&self) -> f64 {
        self.0.lock().remove(0)
    }
}

fn draws(chances: (f64, f64), rolls: &[f64]) -> Option<Draw> {
    let dice = Arc::new(Rolls(parking_lot::Mutex::new(rolls.to_vec())));
    let lottery = Lottery { dice, chances: Arc::new(move || chances) };
    filter(&[], false).with_lottery(Some(lottery)).draw()
}

#[test]
fn both_draws_are_made_before_anything_is_parsed() {
    assert_eq!(draws((0.05, 0.3), &[0.049, 0.29]), Some(Draw { consider: 0.049, deliver: 0.29 }));
    assert_eq!(draws((0.05, 0.3), &[0.05, 0.29]), None);
    assert_eq!(draws((0.05, 0.3), &[0.04, 0.3]), None);
    // A probability of zero draws nothing.
    assert_eq!(draws((0.0, 1.0), &[]), None);
    assert_eq!(draws((1.0, 0.0), &[]), None);
    assert_eq!(filter(&[], false).draw(), None);
}

#[test]
fn reactions_are_looked_into_only_when_our_id_stands_there() {
    let frame =
        |author: u64| format!(r#"{{"t":"MESSAGE_REACTION_ADD","s":1,"op":0,"d":{{"message_author_id":"{author}"}}}}"#);
    assert!(filter(&[], false).may_be_about_ours(&frame(ME)));
    assert!(!filter(&[], false).may_be_about_ours(&frame(OTHER)));
}
