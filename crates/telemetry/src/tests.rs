use parking_lot::Mutex;
use std::fmt;

use serde_json::{Value, json};
use tracing::{debug, error, info, info_span, warn};

use secrecy::SecretString;

use super::*;
use crate::line::MAX_LINE_BYTES;
use domain::ids::Timestamp;

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_268_800_042)
    }
}

const JSON: Style = Style { format: LogFormat::Json, content: false };

fn lines(style: Style, filter: &str, secrets: &[&str], act: impl FnOnce()) -> Vec<String> {
    let written = Arc::new(Mutex::new(Vec::new()));
    let sink = written.clone();
    let secrets: Vec<SecretString> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
    let layer = LineLayer::new(style, Redaction::from(secrets), Arc::new(Noon), move |line, _| {
        sink.lock().push(line.to_owned());
    });
    let subscriber = tracing_subscriber::registry().with(targets(filter).unwrap()).with(layer);
    tracing::subscriber::with_default(subscriber, act);
    std::mem::take(&mut *written.lock())
}

fn objects(act: impl FnOnce()) -> Vec<Value> {
    lines(JSON, "debug", &[], act).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_is_one_flat_object_with_the_time_in_front() {
    let written = lines(JSON, "info", &[], || {
        info!(event = "turn.replied", ms = 12_u64, ratio = 0.5, cached = true, reason = ?Some("x"), "answered");
    });
    let wanted = concat!(
        r#"{"timestamp":"2026-01-01T12:00:00.042Z","level":"INFO","message":"answered","#,
        r#""actor":"staffai","cached":true,"event":"turn.replied","ms":12,"ratio":0.5,"reason":"Some(\"x\")"}"#,
        "\n"
    );
    assert_eq!(written, [wanted]);
}

#[test]
fn the_nearest_span_names_the_actor_and_the_turn() {
    let written = objects(|| {
        let _outer = info_span!("actor", actor = "staffai/conversations", turn = tracing::field::Empty).entered();
        info!("outside");
        let inner = info_span!("turn", turn = %"discord:7", actor = tracing::field::Empty).entered();
        info!("inside");
        inner.record("actor", "staffai/conversations/conversation");
        info!("recorded");
        info!(actor = "staffai/journal", "told");
    });
    let names: Vec<_> = written.iter().map(|line| (line["actor"].as_str(), line["turn"].as_str())).collect();
    let (root, turn) = (Some("staffai/conversations"), Some("discord:7"));
    assert_eq!(
        names,
        [
            (root, None),
            (root, turn),
            (Some("staffai/conversations/conversation"), turn),
            (Some("staffai/journal"), turn)
        ]
    );
}

#[test]
fn secrets_never_appear_in_any_spelling() {
    struct Shown;
    impl fmt::Debug for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Shown").field("key", &"pass\"word/1").finish()
        }
    }
    let written = lines(JSON, "info", &["hunter22", "hunter22-long", "pass\"word/1", "abc"], || {
        let _span = info_span!("turn", turn = "discord:hunter22").entered();
        info!(url = "redis://:pass%22word%2F1@host", shown = ?Shown, "with hunter22-long and hunter22, abc");
    });
    let line: Value = serde_json::from_str(&written[0]).unwrap();
    assert_eq!(line["message"], "with *** and ***, abc");
    assert_eq!(line["turn"], "discord:***");
    assert_eq!(line["url"], "redis://:***@host");
    assert_eq!(line["shown"], "Shown { key: \"***\" }");
}

#[test]
fn a_secret_at_the_cut_shows_no_part_of_itself() {
    let secret = "S".repeat(64);
    for before in 3900..4200 {
        let text = "a".repeat(before) + &secret + &"b".repeat(500);
        let written = lines(JSON, "info", &[&secret], || info!("{text}"));
        assert!(!written[0].contains('S'), "leaks after {before} bytes");
    }
}

#[test]
fn long_values_are_cut_and_no_line_is_longer_than_the_cap() {
    for filler in ["x", "\u{1}", "\"", "ü", "🦀", "\n"] {
        let huge = filler.repeat(40_000);
        let written = lines(JSON, "info", &[], || {
            let _span = info_span!("turn", actor = huge, turn = huge).entered();
            info!(a = huge, b = huge, c = huge, d = huge, e = huge, event = "turn.failed", count = 3_u64, "{huge}");
        });
        assert!(written[0].len() <= MAX_LINE_BYTES, "{} bytes of {filler:?}", written[0].len());
        let line: Value = serde_json::from_str(&written[0]).unwrap();
        assert_eq!((&line["event"], &line["count"]), (&json!("turn.failed"), &json!(3)));
        let message = line["message"].as_str().unwrap();
        assert!(message.starts_with(filler) && message.ends_with('…'), "{filler:?}");
        assert!(line["turn"].as_str().unwrap().ends_with('…'));
    }
}

#[test]
fn a_value_that_fits_is_not_cut() {
    let fits = "y".repeat(4096);
    let written = objects(|| info!("{fits}"));
    assert_eq!(written[0]["message"], fits);
}

#[test]
fn what_members_say_is_written_only_when_asked_for() {
    let say = || info!(content = "my diary", prompt = "be kind", place = "discord:1", "heard");
    let silent: Value = serde_json::from_str(&lines(JSON, "info", &[], say)[0]).unwrap();
    assert_eq!((silent.get("content"), silent.get("prompt")), (None, None));
    assert_eq!(silent["place"], "discord:1");
    let open = lines(Style { content: true, ..JSON }, "info", &[], say);
    assert!(open[0].contains("my diary") && open[0].contains("be kind"));
}

#[test]
fn an_event_cannot_forge_what_the_log_knows() {
    let written = objects(|| info!(level = "none", timestamp = 1, "x"));
    assert_eq!((&written[0]["level"], &written[0]["field.level"]), (&json!("INFO"), &json!("none")));
    assert_eq!(written[0]["timestamp"], "2026-01-01T12:00:00.042Z");
}

#[test]
fn libraries_are_heard_from_warnings_on_and_only_a_few_of_them() {
    let written = objects(|| {
        debug!("own");
        info!(target: "ractor::actor", "chatter");
        warn!(target: "ractor::actor", "trouble");
        error!(target: "reqwest::connect", "a body");
        error!(target: "async_openai::client", "a body");
    });
    let heard: Vec<_> = written.iter().map(|line| (line["message"].as_str(), line["target"].as_str())).collect();
    assert_eq!(heard, [(Some("own"), None), (Some("trouble"), Some("ractor::actor"))]);
}

#[test]
fn filters_are_levels_or_lists_for_own_targets() {
    let count = |filter: &str| {
        lines(JSON, filter, &[], || {
            error!("1");
            warn!("2");
            info!("3");
            debug!("4");
            debug!(target: "staffai_discord::rest", "5");
            debug!(target: "hyper", "6");
        })
        .len()
    };
    let found: Vec<_> =
        ["INFO", "WARNING", "CRITICAL", "debug", "off", "info,staffai::discord=debug", "hyper=trace"].map(count).into();
    assert_eq!(found, [3, 2, 1, 5, 0, 4, 3]);
    for wrong in ["loud", "info,loud", "staffai=loud"] {
        let error = check_filter(wrong).unwrap_err();
        assert!(error.starts_with("must be a level"), "{error}");
    }
}

#[test]
fn a_pretty_line_is_short_and_cannot_steer_the_terminal() {
    let style = |color| Style { format: LogFormat::Pretty { color }, content: false };
    let say = || {
        let _span = info_span!("actor", actor = "staffai/journal").entered();
        warn!(event = "turn.failed", reason = "bad\x1b[2J\nline", ms = 3, "gave up");
    };
    assert_eq!(
        lines(style(false), "info", &[], say),
        ["12:00:00.042Z  WARN staffai/journal turn.failed gave up ms=3 reason=bad\\u{1b}[2J\\nline\n"]
    );
    assert!(lines(style(true), "info", &[], say)[0].contains("\x1b[33m WARN\x1b[0m"));
}

#[test]
fn secrets_that_come_later_are_masked_from_then_on_and_old_ones_stay_masked() {
    let redaction = Redaction::from(vec![SecretString::from("first-key")]);
    let written = Arc::new(Mutex::new(Vec::new()));
    let (sink, known) = (written.clone(), redaction.clone());
    let layer = LineLayer::new(JSON, known, Arc::new(Noon), move |line, _| sink.lock().push(line.to_owned()));
    let subscriber = tracing_subscriber::registry().with(targets("info").unwrap()).with(layer);
    tracing::subscriber::with_default(subscriber, || {
        info!(reason = "first-key second-key", "before");
        redaction.add(&["second-key".into(), "first-key".into(), "abc".into()]);
        info!(reason = "first-key second-key abc", "after");
    });
    let reason = |line: &String| serde_json::from_str::<Value>(line).unwrap()["reason"].as_str().unwrap().to_owned();
    let reasons: Vec<String> = written.lock().iter().map(reason).collect();
    assert_eq!(reasons, ["*** second-key", "*** *** abc"]);
}
