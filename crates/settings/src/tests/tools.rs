//! Limits and rules in `[tools]`.

use std::time::Duration;

use super::*;
use domain::tool::ToolKind;
use domain::tool::limits::Rate;
use domain::tool::pattern::NamePattern;
use domain::tool::rights::{Operation, Verdict};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_limits_are_those_of_the_seed_until_somebody_writes_others() {
    let limits = good(&[], &[]).settings.tools.call_limits();
    let kinds = [
        (ToolKind::Llm, 3, 20),
        (ToolKind::Search, 5, 10),
        (ToolKind::Extract, 5, 30),
        (ToolKind::Drive, 10, 60),
        (ToolKind::Db, 20, 60),
        (ToolKind::Image, 10, 86_400),
    ];
    for (kind, calls, window) in kinds {
        assert_eq!(limits.kinds[&kind], Rate { calls, window: secs(window) }, "{kind:?}");
    }
    assert_eq!((limits.kinds.len(), limits.auto_disable.as_slice()), (6, &[ToolKind::Llm][..]));
    assert!(limits.tools.is_empty() && limits.cooldown.is_empty());
    let others = [("STAFFAI_TOOLS__LIMITS", "search 1/1m, fm__* 2/30"), ("STAFFAI_TOOLS__COOLDOWN", "fm__play 1h30m")];
    let limits = good(&others, &[("staffai.toml", "[tools]\nauto_disable = []")]).settings.tools.call_limits();
    assert_eq!(limits.kinds[&ToolKind::Search], Rate { calls: 1, window: secs(60) });
    assert_eq!(limits.tools, [(NamePattern::wildcard("fm__*"), Rate { calls: 2, window: secs(30) })]);
    assert_eq!(limits.cooldown, [(NamePattern::wildcard("fm__play"), secs(5_400))]);
    assert!(limits.auto_disable.is_empty());
    let capitals =
        [("STAFFAI_TOOLS__LIMITS", "Search 1/1m, Jira__Get* 2/30"), ("STAFFAI_TOOLS__COOLDOWN", "Jira__Get 1h")];
    let limits = good(&capitals, &[]).settings.tools.call_limits();
    assert_eq!(limits.kinds[&ToolKind::Search].calls, 1);
    assert_eq!(limits.kinds[&ToolKind::Image].calls, 10, "pictures cost money, so they have a limit in any case");
    assert_eq!(limits.tools[0].0.as_str(), "Jira__Get*", "names keep their capitals");
    assert_eq!(limits.cooldown[0].0.as_str(), "Jira__Get");
    let expressions =
        [("STAFFAI_TOOLS__LIMITS", "/fm__(get|list)_.*/ 2/30"), ("STAFFAI_TOOLS__COOLDOWN", "/fm__.+/ 1h")];
    let limits = good(&expressions, &[]).settings.tools.call_limits();
    assert!(limits.tools[0].0.matches("fm__get_page") && !limits.tools[0].0.matches("fm__delete_page"));
    assert!(limits.cooldown[0].0.matches("fm__delete_page"));
    let limits = good(&[("STAFFAI_TOOLS__LIMITS", "books 1/1m")], &[]).settings.tools.call_limits();
    assert_eq!(limits.kinds[&"books".parse().unwrap()], Rate { calls: 1, window: secs(60) }, "a custom kind");
}

#[test]
fn pages_are_read_only_when_it_is_said_and_on_usual_ports() {
    let pages = settings(&[]).url_extract;
    assert_eq!((pages.enabled, pages.ports, pages.bytes), (false, vec![80, 443], 2 * 1024 * 1024));
    let toml = "[url_extract]\nenabled = true\nports = [8080]\nallow = [\"example.org\"]";
    let pages =
        good(&[("STAFFAI_URL_EXTRACT__DENY", "a.example.org, b")], &[("staffai.toml", toml)]).settings.url_extract;
    assert_eq!((pages.enabled, pages.ports, pages.allow), (true, vec![8080], vec!["example.org".to_owned()]));
    assert_eq!(pages.deny, ["a.example.org", "b"]);
}

#[test]
fn what_must_be_confirmed_is_asked_about_whatever_the_rules_allow() {
    let toml = r#"
        [tools]
        requires_confirmation = ["fm__delete*"]
        [[tools.rules]]
        tools = "fm__*"
        operation = "write"
        verdict = "auto"
    "#;
    let table = good(&[], &[("staffai.toml", toml)]).settings.tools.table();
    let rows: Vec<_> = table.iter().map(|rule| (rule.tools.as_str(), rule.operation, rule.verdict)).collect();
    assert_eq!(rows, [("fm__delete*", None, Verdict::Ask), ("fm__*", Some(Operation::Write), Verdict::Auto)]);
}

#[test]
fn each_mistake_names_its_place_and_the_fix() {
    for (name, value, fix) in [
        ("STAFFAI_TOOLS__LIMITS", "llm three", "then calls/time, such as `llm 3/20s`"),
        ("STAFFAI_TOOLS__LIMITS", "llm 0/20s", "then calls/time, such as `llm 3/20s`"),
        ("STAFFAI_TOOLS__LIMITS", "llm 3/soon", "then calls/time, such as `llm 3/20s`"),
        ("STAFFAI_TOOLS__COOLDOWN", "fm__*", "between slashes, then a time, such as `fm__* 10s`"),
        ("STAFFAI_TOOLS__LIMITS", "/fm__( 3/20s", "a regular expression between slashes"),
        ("STAFFAI_TOOLS__AUTO_DISABLE", "fm__*", "search, extract, db, drive, llm, image, other or a word"),
        ("STAFFAI_TOOLS__RULES", r#"[{tools = "x", operation = "delete", verdict = "deny"}]"#, "read or write"),
        ("STAFFAI_TOOLS__RULES", r#"[{tools = "x", verdict = "never"}]"#, "row 1: verdict: must be auto, ask or deny"),
        (
            "STAFFAI_TOOLS__RULES",
            r#"[{tools = "x", verdict = "ask"}, {tools = "y"}]"#,
            "row 2: verdict is missing; add it",
        ),
        ("STAFFAI_TOOLS__RULES", r#"{tools = "x"}"#, "write a list of tables, such as [{key"),
        ("STAFFAI_URL_EXTRACT__PORTS", "80,0", "a comma-separated list of ports, each from 1 to 65535"),
        ("STAFFAI_URL_EXTRACT__BYTES", "0", "a whole number, 1 or more"),
    ] {
        let problems = bad(&[(name, value)], &[]);
        assert_eq!(problems.len(), 1, "{value}: {problems:?}");
        let told = &problems[0];
        assert!(told.contains(name) && told.contains(fix), "{told}");
    }
}

#[test]
fn a_rule_can_be_a_regular_expression() {
    let rule = |tools: &str| format!("[[tools.rules]]\ntools = '{tools}'\nverdict = \"deny\"\n");
    let toml = format!("[tools]\nrequires_confirmation = ['/a|B/']\n{}", rule(r"/fm__\S+_page/"));
    let table = good(&[], &[("staffai.toml", &toml)]).settings.tools.table();
    assert!(table[0].tools.matches("B") && !table[0].tools.matches("b"), "{table:?}");
    assert!(table[1].tools.matches("fm__get_page") && !table[1].tools.matches("fm__get_pages"), "{table:?}");
    let mistakes = bad(&[], &[("staffai.toml", &rule("/fm__(/"))]);
    assert!(mistakes.iter().any(|mistake| mistake.contains("regular expression")), "{mistakes:?}");
}
