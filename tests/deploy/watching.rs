//! The monitored metrics as one table, from which Grafana's dashboard and Prometheus' alert rules are generated.
//!
//! `STAFFAI_WRITE_FILES=1 cargo test --test deploy` writes them; without it the test compares.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use telemetry::metrics::METRICS;

/// A panel of the dashboard.
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
    /// The time that it must hold.
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
    /// The action for the operator.
    action: &'static str,
}

const fn panel(title: &'static str, unit: &'static str, queries: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, queries }
}

/// Single numbers above all panels. Counters restart with each process, so sums are of increases.
const STATS: &[Panel] = &[
    panel("Parts that do not work", "short", &[("count(staffai_part_up == 0) or vector(0)", "")]),
    panel("Models that work", "short", &[("sum(staffai_part_up{kind=\"model\"})", "")]),
    panel("Turns in a day", "short", &[("sum(increase(staffai_turns_total[24h]))", "")]),
    panel(
        "Apologies in an hour",
        "percentunit",
        &[(
            "(sum(increase(staffai_turns_total{outcome=\"apologised\"}[1h])) or vector(0)) / clamp_min(sum(increase(staffai_turns_total[1h])), 1)",
            "",
        )],
    ),
    panel(
        "First text, p95 of an hour",
        "s",
        &[("histogram_quantile(0.95, sum by (le) (rate(staffai_first_visible_seconds_bucket[1h])))", "")],
    ),
    panel("Lost in a day", "short", &[("sum(increase(staffai_turns_lost_total[24h]))", "")]),
    panel("Pending approvals", "short", &[("sum(staffai_gates_open)", "")]),
    panel("Shortest uptime", "s", &[("min(staffai_uptime_seconds)", "")]),
];

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
                "Share of apologies",
                "percentunit",
                &[(
                    "sum(rate(staffai_turns_total{outcome=\"apologised\"}[$__rate_interval])) / sum(rate(staffai_turns_total[$__rate_interval]))",
                    "apologised",
                )],
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
                "Complete turn",
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
                "Overhead of a turn, without models and tools",
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
                "Refused and rejected",
                "reqps",
                &[
                    ("sum by (tier) (rate(staffai_limit_refused_total[$__rate_interval]))", "limit: {{tier}}"),
                    ("sum by (where) (rate(staffai_shed_total[$__rate_interval]))", "overload: {{where}}"),
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
                "Tool calls, p99",
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
                "Actor restarts in five minutes",
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
        summary: "no staffai instance is scraped",
        action: "Check the process and its exit code (64, 69, 70, 75): see \"When something is wrong\" in the guide.",
    },
    Alert {
        name: "StaffaiTurnLost",
        expression: "increase(staffai_turns_lost_total[10m]) > 0",
        lasts: "0m",
        severity: "critical",
        summary: "a turn was closed without an answer or an apology",
        action: "`turn.failed` in the log has the reason; usually the bot lacks Send Messages in a channel.",
    },
    Alert {
        name: "StaffaiNoneActive",
        expression: "max by (job) (staffai_active) == 0",
        lasts: "2m",
        severity: "critical",
        summary: "all processes of {{ $labels.job }} stand by, and the bot is silent",
        action: "`notes` in `/readyz` has the reason; usually Redis does not answer.",
    },
    Alert {
        name: "StaffaiRangeFree",
        expression: "max by (job) (staffai_ranges_free) > 0",
        lasts: "1m",
        severity: "critical",
        summary: "a range of {{ $labels.job }} has no process, and its guilds get no answers",
        action: "`staffai cluster` shows the range; start one process more with the same settings.",
    },
    Alert {
        name: "StaffaiTurnDoubled",
        expression: "increase(staffai_turns_doubled_total[10m]) > 0",
        lasts: "0m",
        severity: "critical",
        summary: "a message was answered twice",
        action: "Check for two processes with one token and different stores; otherwise report the log lines of that turn.",
    },
    Alert {
        name: "StaffaiModelsDown",
        // The kind `model` has one series per row; the maximum is 0 if none works.
        expression: "max by (instance, job) (staffai_part_up{kind=\"model\"}) == 0",
        lasts: "0m",
        severity: "critical",
        summary: "no model of {{ $labels.instance }} works",
        action: "Members get apologies. `/readyz` has the last error of each row; `staffai check --models` tests each row.",
    },
    Alert {
        name: "StaffaiApologies",
        expression: "sum by (instance, job) (increase(staffai_turns_total{outcome=\"apologised\"}[5m])) / sum by (instance, job) (increase(staffai_turns_total[5m])) > 0.1 and sum by (instance, job) (increase(staffai_turns_total{outcome=\"apologised\"}[5m])) >= 3",
        lasts: "1m",
        severity: "warning",
        summary: "more than one turn in ten of {{ $labels.instance }} ends with an apology",
        action: "`turn.failed` in the log has reason, place, member and the time per phase of each turn.",
    },
    Alert {
        name: "StaffaiSlow",
        expression: "histogram_quantile(0.95, sum by (le, instance, job) (rate(staffai_first_visible_seconds_bucket[5m]))) > 10",
        lasts: "5m",
        severity: "warning",
        summary: "one answer in twenty of {{ $labels.instance }} begins after more than 10 seconds",
        action: "`turn.replied` in the log has `lane_ms`, `permit_ms`, `model_ms`, `tools_ms` and `post_ms` of each turn; `staffai check --models` tests each row.",
    },
    Alert {
        name: "StaffaiShedding",
        expression: "sum by (where) (increase(staffai_shed_total[5m])) > 0",
        lasts: "5m",
        severity: "warning",
        summary: "work is rejected because of overload: {{ $labels.where }}",
        action: "Members are asked to come back later. Read `where` in `turn.shed`; find the slow model or the flood, then raise that bound.",
    },
    Alert {
        name: "StaffaiActorRestarts",
        expression: "sum by (actor) (increase(staffai_actor_restarts_total[10m])) > 5",
        lasts: "0m",
        severity: "warning",
        summary: "{{ $labels.actor }} was restarted more than five times in ten minutes",
        action: "`actor.failed` has the reason; with `handling` `message`, one message causes the failures.",
    },
    Alert {
        name: "StaffaiActorHung",
        expression: "sum by (actor) (increase(staffai_actor_hung_total[10m])) > 0",
        lasts: "0m",
        severity: "warning",
        summary: "a handler of {{ $labels.actor }} exceeded its time limit",
        action: "`actor.hung` has the reaction of the watchdog; with `none is left`, restart the process.",
    },
    Alert {
        name: "StaffaiMailboxDeep",
        expression: "staffai_mailbox_depth > 1000",
        lasts: "2m",
        severity: "warning",
        summary: "more than a thousand messages wait for {{ $labels.actor }}",
        action: "Open the row of that actor in the dashboard: if it hangs, restart the process; if the CPU is busy, limit the load or give it more CPU.",
    },
    Alert {
        name: "StaffaiBoundUsed",
        expression: "staffai_bound_used / staffai_bound_max > 0.9",
        lasts: "5m",
        severity: "warning",
        summary: "more than 90 % of {{ $labels.bound }} is in use",
        action: "Above the bound, members are asked to come back later. Run `staffai check --models` to find a slow model, then raise `llm.concurrent` or `turn.open`.",
    },
    Alert {
        name: "StaffaiPartDown",
        // A tool server, one model row, or a place that refuses posts is optional: members are answered without it.
        // A failing store has an alert of its own; this one is about its settings.
        expression: "staffai_part_up{kind=~\"door|shard\"} == 0 or (staffai_part_up{kind=\"store\"} == 0 unless on (instance, job) staffai_store_degraded == 1)",
        lasts: "5m",
        severity: "warning",
        summary: "{{ $labels.kind }} {{ $labels.name }} does not work",
        action: "Read its `last_error` in `/readyz`, and follow the row of that message in \"When something is wrong\" in the guide.",
    },
    Alert {
        name: "StaffaiStoreDegraded",
        expression: "staffai_store_degraded == 1",
        lasts: "5m",
        severity: "critical",
        summary: "the store fails, and state is kept in memory",
        action: "Repair the store before stopping the process; otherwise unsaved data is lost.",
    },
    Alert {
        name: "StaffaiConfigurationRejected",
        expression: "staffai_config_rejected == 1",
        lasts: "5m",
        severity: "warning",
        summary: "changed files are invalid, and the previous settings stay in effect",
        action: "`config.rejected` in the log lists each mistake.",
    },
    Alert {
        name: "StaffaiRestartLoop",
        expression: "resets(staffai_uptime_seconds[30m]) > 3",
        lasts: "0m",
        severity: "critical",
        summary: "the process restarted more than three times in 30 minutes",
        action: "See the end of the log before each start; exit 70 follows `actor.escalated`.",
    },
    Alert {
        name: "StaffaiDiscordLimits",
        expression: "rate(staffai_discord_requests_total{status=\"429\"}[10m]) > 0.05",
        lasts: "10m",
        severity: "warning",
        summary: "Discord answers 429 repeatedly",
        action: "Check for another program with the same token, or lower DISCORD_REQUESTS_PER_SECOND.",
    },
];

const DASHBOARD_FILE: &str = "deploy/grafana/staffai.json";
const RULES_FILE: &str = "deploy/prometheus/staffai.rules.yaml";
const RULES_TEST_FILE: &str = "deploy/prometheus/staffai.rules.test.yaml";
/// Single numbers per row, and their width and height.
const STATS_WIDTH: usize = 24 / 8;
const STATS_HEIGHT: usize = 4;
/// The prefixes of metrics; labels of models and tools begin with `gen_ai_` too.
const STARTS: [&str; 4] = ["staffai_", "mcp_client_", "gen_ai_client_", "gen_ai_execute_"];
/// The dashboard's filter of processes.
const CHOSEN: &str = "instance=~\"$instance\"";
/// Panels per row, and the width and height of each.
const COLUMNS: usize = 3;
const WIDTH: usize = 24 / COLUMNS;
const HEIGHT: usize = 8;

/// Adds the filter to each metric of an expression.
fn of_chosen(expression: &str) -> String {
    let (mut out, mut rest) = (String::new(), expression);
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| is_word(letter) != is_word(first)).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        out.push_str(word);
        rest = more;
        if STARTS.iter().any(|start| word.starts_with(start)) {
            match rest.strip_prefix('{') {
                Some(more) => {
                    out.extend(["{", CHOSEN, ", "]);
                    rest = more;
                }
                None => out.extend(["{", CHOSEN, "}"]),
            }
        }
    }
    out
}

fn targets(panel: &Panel, source: &Value) -> Vec<Value> {
    let target = |((expression, legend), name): (&(&str, &str), char)| json!({"refId": name.to_string(), "datasource": source, "expr": of_chosen(expression), "legendFormat": legend});
    panel.queries.iter().zip('A'..='Z').map(target).collect()
}

fn dashboard() -> String {
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let (mut panels, mut top, mut id) = (Vec::new(), 0, 0);
    for (number, panel) in STATS.iter().enumerate() {
        id += 1;
        panels.push(json!({
            "id": id, "type": "stat", "title": panel.title, "datasource": source,
            "gridPos": {"h": STATS_HEIGHT, "w": STATS_WIDTH, "x": number * STATS_WIDTH, "y": top},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none", "graphMode": "area"},
            "targets": targets(panel, &source),
        }));
    }
    top += STATS_HEIGHT;
    for section in DASHBOARD {
        id += 1;
        let place = json!({"h": 1, "w": 24, "x": 0, "y": top});
        panels.push(json!({"id": id, "type": "row", "title": section.title, "collapsed": false, "gridPos": place, "panels": []}));
        top += 1;
        for (number, panel) in section.panels.iter().enumerate() {
            id += 1;
            let place = json!({
                "h": HEIGHT, "w": WIDTH, "x": number % COLUMNS * WIDTH, "y": top + number / COLUMNS * HEIGHT,
            });
            panels.push(json!({
                "id": id, "type": "timeseries", "title": panel.title, "datasource": source, "gridPos": place,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
                "targets": targets(panel, &source),
            }));
        }
        top += section.panels.len().div_ceil(COLUMNS) * HEIGHT;
    }
    let whole = json!({
        "uid": "staffai", "title": "staffai", "tags": ["staffai"], "editable": true, "schemaVersion": 39, "version": 1,
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "panels": panels,
        "templating": {"list": [
            {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
            {
                "name": "instance", "label": "Instance", "type": "query", "datasource": source, "refresh": 2,
                "query": {"query": "label_values(staffai_build_info, instance)", "refId": "instances"},
                "includeAll": true, "allValue": ".*", "multi": true, "sort": 1, "current": {"text": "All", "value": "$__all"},
            },
        ]},
    });
    serde_json::to_string_pretty(&whole).expect("plain data") + "\n"
}

fn rules() -> String {
    let mut text = String::from("# Generated from tests/deploy/watching.rs.\ngroups:\n  - name: staffai\n    rules:\n");
    for Alert { name, expression, lasts, severity, summary, action } in ALERTS {
        let quoted = |text: &str| Value::from(text).to_string();
        let (expression, summary, action) = (quoted(expression), quoted(summary), quoted(action));
        let _ = writeln!(text, "      - alert: {name}\n        expr: {expression}\n        for: {lasts}");
        let _ = writeln!(text, "        labels: {{severity: {severity}}}\n        annotations:");
        let _ = writeln!(text, "          summary: {summary}\n          description: {action}");
    }
    text
}

/// True if the files are to be written.
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

/// Returns the metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let metrics = words.filter(|word| STARTS.iter().any(|start| word.starts_with(start)));
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

/// Runs Prometheus' tool from Debian, which `./test` installs.
fn promtool(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("promtool");
    let done = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let done = done.unwrap_or_else(|error| panic!("promtool: {error}; ./test installs it"));
    (done.status.success(), [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}

#[test]
fn prometheus_takes_the_rules_and_fires_them_in_time() {
    let (fine, told) = promtool(&["check", "rules", RULES_FILE]);
    assert!(fine && told.contains(&format!("{} rules found", ALERTS.len())), "{told}");
    let (fine, told) = promtool(&["test", "rules", RULES_TEST_FILE]);
    assert!(fine, "{told}");
    // The same histories with another rule: the test can fail.
    let folder = tempfile::tempdir().expect("a folder");
    let of = |name: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("a file");
    let late = of(RULES_FILE).replace("for: 0m", "for: 5m");
    std::fs::write(folder.path().join("staffai.rules.yaml"), late).expect("a file");
    let histories = folder.path().join("histories.yaml");
    std::fs::write(&histories, of(RULES_TEST_FILE)).expect("a file");
    let (fine, _) = promtool(&["test", "rules", &histories.display().to_string()]);
    assert!(!fine, "rules that fire later are not noticed");
}

#[test]
fn prometheus_understands_every_query_of_the_dashboard() {
    let made: Value = serde_json::from_str(&dashboard()).expect("JSON");
    let panels = made["panels"].as_array().expect("panels");
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut rules = String::from("groups:\n  - name: queries\n    rules:\n");
    let mut many = 0;
    for query in queries {
        let expression = query["expr"].as_str().expect("an expression");
        assert!(named(expression).is_empty() || expression.contains(CHOSEN), "{expression}");
        let asked = expression.replace("$__rate_interval", "5m").replace("$instance", ".*");
        let _ = writeln!(rules, "      - record: query:{many}\n        expr: {}", Value::from(asked));
        many += 1;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queries.yaml");
    std::fs::write(&path, rules).expect("a file");
    let (fine, told) = promtool(&["check", "rules", &path.display().to_string()]);
    assert!(fine && many > 30 && told.contains(&format!("{many} rules found")), "{told}");
    let stats = panels.iter().filter(|panel| panel["type"] == "stat").count();
    assert_eq!((stats, stats * STATS_WIDTH), (STATS.len(), 24));
}
