use proptest::prelude::*;

use super::*;

fn text(kind: ActivityKind, written: &str) -> Option<String> {
    line(kind, written).map(|line| line.text.to_string())
}

#[test]
fn a_line_is_plain_text() {
    for (written, shown) in [
        ("hide and seek with a semicolon", "hide and seek with a semicolon"),
        ("\"paint dry\n in 8K\"", "paint dry in 8K"),
        ("**bold** `code` ~~gone~~ ||hidden||", "bold code gone hidden"),
        ("chess with <@123> and @everyone", "chess with and everyone"),
        ("a <:wave:55> from <#9>", "a from"),
        ("the news at https://example.com/x now", "the news at now"),
        ("5 < 6 and 7 > 6", "5 6 and 7 6"),
        ("“the sea”", "the sea"),
        ("tea \u{202e}backwards\u{0}", "tea backwards"),
    ] {
        assert_eq!(text(ActivityKind::Custom, written).as_deref(), Some(shown), "{written:?}");
    }
    for nothing in ["", "  \n", "**", "<@1>", "https://example.com"] {
        assert_eq!(text(ActivityKind::Playing, nothing), None, "{nothing:?}");
    }
}

#[test]
fn the_kind_is_not_said_twice() {
    assert_eq!(text(ActivityKind::Playing, "Playing chess").as_deref(), Some("chess"));
    assert_eq!(text(ActivityKind::Listening, "listening to: rain").as_deref(), Some("rain"));
    assert_eq!(text(ActivityKind::Watching, "Watchingly").as_deref(), Some("Watchingly"));
    assert_eq!(text(ActivityKind::Custom, "Custom made").as_deref(), Some("Custom made"));
}

#[test]
fn a_long_line_is_cut_at_a_whole_letter() {
    let family = "👩‍👩‍👧‍👦";
    let shown = text(ActivityKind::Custom, &family.repeat(40)).unwrap();
    assert!(shown.chars().count() <= LINE_MAX && shown.ends_with('…'));
    assert!(shown.trim_end_matches('…').graphemes(true).all(|grapheme| grapheme == family));
    assert_eq!(text(ActivityKind::Custom, &"x".repeat(LINE_MAX)).unwrap().len(), LINE_MAX);
}

#[test]
fn kinds_take_turns() {
    let kinds: Vec<ActivityKind> = (0..5).map(ActivityKind::of).collect();
    assert_eq!(
        kinds,
        [
            ActivityKind::Playing,
            ActivityKind::Listening,
            ActivityKind::Watching,
            ActivityKind::Custom,
            ActivityKind::Playing
        ]
    );
}

#[test]
fn the_model_is_told_the_kind_and_the_last_lines() {
    let prompts = prompt::Prompts {
        personality: "unused".into(),
        interjection: "unused".into(),
        activity: "You are {bot_name}.".into(),
        bot_name: "Robo".into(),
        words: 30,
        channels: Arc::default(),
        doors: Arc::default(),
        profiles: Arc::default(),
        sections: Arc::default(),
    };
    let earlier: Vec<Arc<str>> = (0..7).map(|n| format!("line {n}").into()).collect();
    let items = transcript(&prompts, ActivityKind::Listening, &earlier);
    assert!(items[0].content.starts_with("You are Robo.\n\nAnswer with exactly one JSON object"));
    assert_eq!(
        items[1].content,
        "Kind of status: Listening to. Write the status line.\nYour last lines, not to be repeated:\n- line 2\n- line 3\n- line 4\n- line 5\n- line 6"
    );
}

proptest! {
    #[test]
    fn whatever_a_model_writes_is_one_short_plain_line(written in "\\PC{0,400}|[<>@#:/`*a-z \n]{0,300}") {
        if let Some(line) = line(ActivityKind::Playing, &written) {
            prop_assert!(line.text.chars().count() <= LINE_MAX);
            prop_assert!(!line.text.contains(['\n', '@', '<', '>', '`']));
            prop_assert!(!line.text.trim().is_empty());
        }
    }

    #[test]
    fn never_more_changes_in_a_minute_than_allowed(steps in prop::collection::vec(0_u64..40_000, 1..200)) {
        let (mut pace, mut now, mut shown) = (Pace::default(), Duration::ZERO, Vec::new());
        for step in steps {
            now += Duration::from_millis(step);
            match pace.take(now) {
                Ok(()) => shown.push(now),
                Err(wait) => {
                    prop_assert!(wait <= PERIOD && !wait.is_zero());
                    now += wait;
                    prop_assert_eq!(pace.take(now), Ok(()), "the wait is enough");
                    shown.push(now);
                }
            }
        }
        for window in shown.windows(CHANGES + 1) {
            prop_assert!(window[CHANGES] >= window[0] + PERIOD);
        }
    }
}
