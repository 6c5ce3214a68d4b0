//! Names that dashboards and alerts depend on.

use telemetry::events::EVENTS;
use telemetry::metrics::{METRICS, MetricKind};

use crate::source::{File, Finding, behind_group, tokens};

/// Every event that the source logs is listed.
pub fn events(file: &File) -> Vec<Finding> {
    let tokens = tokens(&file.shipped);
    let mut found = Vec::new();
    for window in tokens.windows(3) {
        if window[0].text != "event" || window[1].text != "=" {
            continue;
        }
        let name = file.literal(window[2].at);
        if let Some(name) = name.filter(|name| !EVENTS.iter().any(|(listed, _)| listed == name)) {
            found.push(file.finding(
                window[2].at,
                "event",
                format!("'{name}' is not in crates/telemetry/src/events.rs"),
            ));
        }
    }
    found
}

/// Every metric that the source records is listed.
pub fn metrics(file: &File) -> Vec<Finding> {
    let tokens = tokens(&file.shipped);
    let mut found = Vec::new();
    for window in tokens.windows(4) {
        let records = matches!(window[0].text, "counter" | "gauge" | "histogram");
        if !records || window[1].text != "!" || window[2].text != "(" {
            continue;
        }
        let name = file.literal(window[3].at);
        if let Some(name) = name.filter(|name| !METRICS.iter().any(|metric| metric.name == *name)) {
            found.push(file.finding(
                window[3].at,
                "metric",
                format!("'{name}' is not in crates/telemetry/src/metrics.rs"),
            ));
        }
    }
    found
}

/// Every value of a label that alerts count from zero is listed with its metric.
pub fn labels(file: &File) -> Vec<Finding> {
    let tokens = tokens(&file.shipped);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.text == "counter") {
        // The insides of literals are blank, which leaves two quotes.
        let marks = tokens[index..behind_group(&tokens, index + 2)].iter().filter(|token| token.text == "\"");
        let literals: Vec<&str> = marks.step_by(2).filter_map(|mark| file.literal(mark.at)).collect();
        let Some((name, rest)) = literals.split_first() else { continue };
        let zero = METRICS.iter().find_map(|metric| match metric.kind {
            MetricKind::ZeroCounters(label, values) if metric.name == *name => Some((label, values)),
            _ => None,
        });
        let Some((label, values)) = zero else { continue };
        let value = rest.iter().skip_while(|literal| **literal != label).nth(1);
        if let Some(value) = value.filter(|value| !values.contains(value)) {
            let message = format!("'{value}' is not among the values of {label} in crates/telemetry/src/metrics.rs");
            found.push(file.finding(token.at, "label", message));
        }
    }
    found
}

/// The places that name an event or a metric beside the lists in `telemetry`, which declare each name once: renderings use those
/// constants.
pub fn written_out(file: &File) -> (usize, usize) {
    let tokens = tokens(&file.shipped);
    let literal = |at| file.literal(at).is_some();
    let events =
        tokens.windows(3).filter(|window| window[0].text == "event" && window[1].text == "=" && literal(window[2].at));
    let metrics = tokens.windows(4).filter(|window| {
        let records = matches!(window[0].text, "counter" | "gauge" | "histogram");
        records && window[1].text == "!" && window[2].text == "(" && literal(window[3].at)
    });
    (events.count(), metrics.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names promised to operators. Names are added, never changed or removed.
    const PROMISED_EVENTS: &str =
        "actor.started actor.stopped actor.failed actor.restarted actor.escalated actor.health
        gateway.dropped gateway.ready gateway.resumed gateway.closed
        turn.accepted turn.refused turn.replied turn.failed turn.resumed turn.shed
        limit.refused restriction.added restriction.lifted llm.called llm.repaired llm.fallback tool.called
        breaker.opened breaker.closed store.degraded store.recovered config.reloaded config.rejected drain.started drain.finished
        mcp.state";

    const PROMISED_METRICS: &str = "staffai_turns_total staffai_turn_seconds staffai_turn_overhead_seconds
        staffai_first_visible_seconds staffai_turns_lost_total staffai_turns_doubled_total staffai_shed_total
        staffai_actor_restarts_total staffai_mailbox_depth staffai_limit_refused_total staffai_restrictions_active
        staffai_gateway_events_total staffai_discord_requests_total gen_ai_client_token_usage gen_ai_client_operation_duration_seconds
        gen_ai_execute_tool_duration_seconds
        staffai_mcp_state mcp_client_operation_duration_seconds";

    #[test]
    fn what_was_promised_is_listed_once_and_explained() {
        let mut listed: Vec<&str> = EVENTS.iter().map(|(name, _)| *name).collect();
        for name in PROMISED_EVENTS.split_whitespace() {
            assert!(listed.contains(&name), "the event {name} is missing");
        }
        for (name, sentence) in EVENTS {
            assert!(sentence.len() > 10 && !sentence.ends_with('.'), "{name}: {sentence}");
        }
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len(), EVENTS.len(), "an event is listed twice");
        for name in PROMISED_METRICS.split_whitespace() {
            assert!(METRICS.iter().any(|metric| metric.name == name), "the metric {name} is missing");
        }
    }

    #[test]
    fn unlisted_names_are_found() {
        let found = |rule: fn(&File) -> Vec<Finding>, text: &str| {
            rule(&File::new("src/a.rs", text)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let text = "info!(\n    event = \"turn.acepted\", \"x\");\ninfo!(event = \"turn.accepted\", \"x\");";
        assert_eq!(found(events, text), ["src/a.rs:2: event: 'turn.acepted' is not in crates/telemetry/src/events.rs"]);
        let text = "counter!(\"staffai_turn_total\").increment(1);\nmetrics::gauge!(\"staffai_mailbox_depth\").set(1);";
        assert_eq!(
            found(metrics, text),
            ["src/a.rs:1: metric: 'staffai_turn_total' is not in crates/telemetry/src/metrics.rs"]
        );
        let text = "metrics::counter!(\"staffai_shed_total\", \"where\" => \"attic\").increment(1);\n\
                    metrics::counter!(\"staffai_shed_total\", \"where\" => \"lane\").increment(1);";
        assert_eq!(
            found(labels, text),
            ["src/a.rs:1: label: 'attic' is not among the values of where in crates/telemetry/src/metrics.rs"]
        );
        let quiet = "let event = next(); // event = \"x\"\nif event == \"y\" {}\n#[cfg(test)] mod t { fn f() { event = \"z\" } }";
        assert!(found(events, quiet).is_empty());
    }
}
