//! What is worth watching, as one table: the dashboard for Grafana and the alert rules for Prometheus are made from it.
//!
//! `STAFFAI_WRITE_FILES=1 cargo test --test deploy` writes them anew; without it the test compares.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use staffai::telemetry::metrics::METRICS;

/// A diagram of the dashboard.
struct Panel {
    title: &'static str,
    /// Grafana's name of the unit.
    unit: &'static str,
    /// Expressions, each with its legend.
    queries: &'static [(&'static str, &'static str)],
}

/// A row of the dashboard.
struct Section {
    title: &'static str,
    panels: &'static [Panel],
}

/// An alert rule.
struct Alert {
    name: &'static str,
    expression: &'static str,
    /// For how long it must be true.
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
    /// What to look at and to do.
    action: &'static str,
}

const fn panel(title: &'static str, unit: &'static str, queries: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, queries }
}

const DASHBOARD: &[Section] = &[
    Section {
        title: "Answers",
        panels: &[
            panel(
                "Turns",
                "reqps",
                &[("sum by (outcome) (rate(staffai_turns_total[$__rate_interval]))", "{{outcome}}")],
            ),
            panel(
                "First visible text",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(staffai_first_visible_seconds_bucket[$__rate_interval])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(staffai_first_visible_seconds_bucket[$__rate_interval])))",
                        "p99",
                    ),
                ],
            ),
            panel(
                "Whole turn",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(staffai_turn_seconds_bucket[$__rate_interval])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(staffai_turn_seconds_bucket[$__rate_interval])))",
                        "p99",
                    ),
                ],
            ),
            panel(
                "Own time of a turn, without models and tools",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(staffai_turn_overhead_seconds_bucket[$__rate_interval])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(staffai_turn_overhead_seconds_bucket[$__rate_interval])))",
                        "p99",
                    ),
                ],
            ),
            panel(
                "Lost and doubled",
                "short",
                &[("sum(staffai_turns_lost_total)", "lost"), ("sum(staffai_turns_doubled_total)", "doubled")],
            ),
            panel(
                "Refused and turned away",
                "reqps",
                &[
                    ("sum by (tier) (rate(staffai_limit_refused_total[$__rate_interval]))", "limit: {{tier}}"),
                    ("sum by (where) (rate(staffai_shed_total[$__rate_interval]))", "too much: {{where}}"),
                ],
            ),
        ],
    },
    Section {
        title: "Models and tools",
        panels: &[
            panel(
                "Model calls, p99",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le, gen_ai_request_model) (rate(gen_ai_client_operation_duration_seconds_bucket[$__rate_interval])))",
                    "{{gen_ai_request_model}}",
                )],
            ),
            panel(
                "Tokens",
                "short",
                &[(
                    "sum by (gen_ai_request_model, gen_ai_token_type) (rate(gen_ai_client_token_usage_sum[$__rate_interval]))",
                    "{{gen_ai_request_model}} {{gen_ai_token_type}}",
                )],
            ),
            panel("Cost since the start", "currencyUSD", &[("sum by (model) (staffai_llm_cost_dollars)", "{{model}}")]),
            panel(
                "Calls of tools, p99",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le, gen_ai_tool_name) (rate(gen_ai_execute_tool_duration_seconds_bucket[$__rate_interval])))",
                    "{{gen_ai_tool_name}}",
                )],
            ),
        ],
    },
    Section {
        title: "Program",
        panels: &[
            panel(
                "Restarts of actors in five minutes",
                "short",
                &[("sum by (actor) (increase(staffai_actor_restarts_total[5m])) > 0", "{{actor}}")],
            ),
            panel("Deepest mailboxes", "short", &[("topk(5, staffai_mailbox_depth)", "{{actor}}")]),
            panel("Bounds in use", "percentunit", &[("staffai_bound_used / staffai_bound_max", "{{bound}}")]),
            panel("Parts that work", "short", &[("staffai_part_up", "{{kind}} {{name}}")]),
            panel("Memory", "bytes", &[("staffai_process_memory_bytes", "{{instance}}")]),
            panel(
                "Processor",
                "percentunit",
                &[("rate(staffai_process_cpu_seconds[$__rate_interval])", "{{instance}}")],
            ),
            panel("Uptime", "s", &[("staffai_uptime_seconds", "{{instance}}")]),
            panel("Version", "short", &[("sum by (version) (staffai_build_info)", "{{version}}")]),
        ],
    },
    Section {
        title: "Discord and store",
        panels: &[
            panel(
                "Requests",
                "reqps",
                &[("sum by (status) (rate(staffai_discord_requests_total[$__rate_interval]))", "{{status}}")],
            ),
            panel(
                "Events",
                "reqps",
                &[("sum by (kind) (rate(staffai_gateway_events_total[$__rate_interval]))", "{{kind}}")],
            ),
            panel(
                "Commits, p99",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (le) (rate(staffai_store_commit_seconds_bucket[$__rate_interval])))",
                    "p99",
                )],
            ),
            panel("Writes", "wps", &[("rate(staffai_store_writes_total[$__rate_interval])", "{{instance}}")]),
        ],
    },
];

const ALERTS: &[Alert] = &[
    Alert {
        name: "StaffaiAbsent",
        expression: "absent(staffai_build_info)",
        lasts: "5m",
        severity: "critical",
        summary: "no staffai is scraped",
        action: "Look at the process and its exit code: 64, 69, 70 and 75 are in the guide under \"When something is wrong\".",
    },
    Alert {
        name: "StaffaiTurnLost",
        expression: "increase(staffai_turns_lost_total[10m]) > 0",
        lasts: "0m",
        severity: "critical",
        summary: "a turn was closed without an answer or an apology",
        action: "`turn.failed` in the log names the reason; a channel without Send Messages is the usual one.",
    },
    Alert {
        name: "StaffaiTurnDoubled",
        expression: "increase(staffai_turns_doubled_total[10m]) > 0",
        lasts: "0m",
        severity: "critical",
        summary: "a message was answered twice",
        action: "Two processes may serve one token with different stores; else report the log lines of that turn.",
    },
    Alert {
        name: "StaffaiSlow",
        expression: "histogram_quantile(0.95, sum by (le) (rate(staffai_first_visible_seconds_bucket[10m]))) > 30",
        lasts: "10m",
        severity: "warning",
        summary: "one answer in twenty begins after more than 30 seconds",
        action: "Compare the durations of model calls and the bounds in use; `staffai check --models` tries each row.",
    },
    Alert {
        name: "StaffaiShedding",
        expression: "sum by (where) (increase(staffai_shed_total[5m])) > 0",
        lasts: "5m",
        severity: "warning",
        summary: "work is turned away at {{ $labels.where }}",
        action: "Members are told to come back; look at the bounds in use, and at who writes so much.",
    },
    Alert {
        name: "StaffaiActorRestarts",
        expression: "sum by (actor) (increase(staffai_actor_restarts_total[10m])) > 5",
        lasts: "0m",
        severity: "warning",
        summary: "{{ $labels.actor }} was restarted more than five times in ten minutes",
        action: "`actor.failed` says why; with `handling` `message` it is what somebody sent.",
    },
    Alert {
        name: "StaffaiActorHung",
        expression: "sum by (actor) (increase(staffai_actor_hung_total[10m])) > 0",
        lasts: "0m",
        severity: "warning",
        summary: "a handler of {{ $labels.actor }} ran longer than it may",
        action: "`actor.hung` says what was done; with `none is left` only a restart of the process ends it.",
    },
    Alert {
        name: "StaffaiMailboxDeep",
        expression: "staffai_mailbox_depth > 1000",
        lasts: "2m",
        severity: "warning",
        summary: "more than a thousand messages wait for {{ $labels.actor }}",
        action: "Look at that actor's row in the dashboard, and at the processor.",
    },
    Alert {
        name: "StaffaiBoundUsed",
        expression: "staffai_bound_used / staffai_bound_max > 0.9",
        lasts: "5m",
        severity: "warning",
        summary: "nine tenths of {{ $labels.bound }} are in use",
        action: "Models that are slow hold permits; beyond the bound members are told to come back.",
    },
    Alert {
        name: "StaffaiPartDown",
        expression: "staffai_part_up == 0",
        lasts: "5m",
        severity: "warning",
        summary: "{{ $labels.kind }} {{ $labels.name }} does not work",
        action: "`/readyz` has its last error.",
    },
    Alert {
        name: "StaffaiStoreDegraded",
        expression: "staffai_store_degraded == 1",
        lasts: "5m",
        severity: "critical",
        summary: "the store fails and memory serves",
        action: "Mend the store before the process is stopped: what only memory holds is lost then.",
    },
    Alert {
        name: "StaffaiConfigurationRejected",
        expression: "staffai_config_rejected == 1",
        lasts: "5m",
        severity: "warning",
        summary: "changed files are wrong and the old settings stay",
        action: "`config.rejected` in the log names each mistake.",
    },
    Alert {
        name: "StaffaiRestartsAgainAndAgain",
        expression: "resets(staffai_uptime_seconds[30m]) > 3",
        lasts: "0m",
        severity: "critical",
        summary: "the process was started anew more than three times in half an hour",
        action: "The end of the log before each start says why; exit 70 follows `actor.escalated`.",
    },
    Alert {
        name: "StaffaiDiscordLimits",
        expression: "rate(staffai_discord_requests_total{status=\"429\"}[10m]) > 0.05",
        lasts: "10m",
        severity: "warning",
        summary: "Discord limits requests again and again",
        action: "Another program may use the same token; DISCORD_REQUESTS_PER_SECOND lowers the own budget.",
    },
];

const DASHBOARD_FILE: &str = "deploy/grafana/staffai.json";
const RULES_FILE: &str = "deploy/prometheus/staffai.rules.yaml";
/// Panels of a row, and the units of width and height that each takes.
const COLUMNS: usize = 3;
const WIDTH: usize = 24 / COLUMNS;
const HEIGHT: usize = 8;

fn dashboard() -> String {
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let (mut panels, mut top, mut id) = (Vec::new(), 0, 0);
    for section in DASHBOARD {
        id += 1;
        let place = json!({"h": 1, "w": 24, "x": 0, "y": top});
        panels.push(json!({"id": id, "type": "row", "title": section.title, "collapsed": false, "gridPos": place, "panels": []}));
        top += 1;
        for (number, panel) in section.panels.iter().enumerate() {
            id += 1;
            let targets = panel.queries.iter().zip('A'..='Z').map(|((expression, legend), name)| {
                json!({"refId": name.to_string(), "datasource": source, "expr": expression, "legendFormat": legend})
            });
            let place = json!({
                "h": HEIGHT, "w": WIDTH, "x": number % COLUMNS * WIDTH, "y": top + number / COLUMNS * HEIGHT,
            });
            panels.push(json!({
                "id": id, "type": "timeseries", "title": panel.title, "datasource": source, "gridPos": place,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
                "targets": targets.collect::<Vec<Value>>(),
            }));
        }
        top += section.panels.len().div_ceil(COLUMNS) * HEIGHT;
    }
    let whole = json!({
        "uid": "staffai", "title": "staffai", "tags": ["staffai"], "editable": true, "schemaVersion": 39, "version": 1,
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "panels": panels,
        "templating": {"list": [
            {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
        ]},
    });
    serde_json::to_string_pretty(&whole).expect("plain data") + "\n"
}

fn rules() -> String {
    let mut text = String::from("# Made from tests/deploy/watching.rs.\ngroups:\n  - name: staffai\n    rules:\n");
    for Alert { name, expression, lasts, severity, summary, action } in ALERTS {
        let quoted = |text: &str| Value::from(text).to_string();
        let (expression, summary, action) = (quoted(expression), quoted(summary), quoted(action));
        let _ = writeln!(text, "      - alert: {name}\n        expr: {expression}\n        for: {lasts}");
        let _ = writeln!(text, "        labels: {{severity: {severity}}}\n        annotations:");
        let _ = writeln!(text, "          summary: {summary}\n          description: {action}");
    }
    text
}

/// Whether the files are written anew.
#[expect(clippy::disallowed_methods, reason = "who changed the table asks for new files")]
fn writes() -> bool {
    std::env::var_os("STAFFAI_WRITE_FILES").is_some()
}

#[test]
fn the_dashboard_and_the_alert_rules_are_those_of_the_table() {
    let write = writes();
    for (name, made) in [(DASHBOARD_FILE, dashboard()), (RULES_FILE, rules())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        if write {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, &made).expect("a file");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(there, made, "{name} is old: STAFFAI_WRITE_FILES=1 cargo test --test deploy");
    }
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    // Labels of models and tools begin with `gen_ai_` too.
    let starts = ["staffai_", "mcp_client_", "gen_ai_client_", "gen_ai_execute_"];
    let metrics = words.filter(|word| starts.iter().any(|start| word.starts_with(start)));
    metrics.map(|word| word.trim_end_matches("_bucket").trim_end_matches("_sum").to_owned()).collect()
}

#[test]
fn every_metric_that_is_watched_is_one_of_the_program() {
    let (shown, alerted) = (named(&dashboard()), named(&rules()));
    assert!(shown.len() > 20 && alerted.len() > 10, "{shown:?}, {alerted:?}");
    for name in shown.union(&alerted) {
        assert!(METRICS.iter().any(|metric| metric.name == name), "there is no metric {name}");
    }
}

#[test]
fn rules_have_names_of_their_own_and_say_what_to_do() {
    let names: BTreeSet<&str> = ALERTS.iter().map(|alert| alert.name).collect();
    assert_eq!(names.len(), ALERTS.len());
    for alert in ALERTS {
        assert!(alert.name.starts_with("Staffai"), "{}", alert.name);
        assert!(["critical", "warning"].contains(&alert.severity), "{}", alert.name);
        assert!(alert.action.ends_with('.') && !alert.summary.ends_with('.'), "{}", alert.name);
    }
}
