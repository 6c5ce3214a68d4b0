//! Names that dashboards and alerts depend on.

use crate::source::{File, Finding, tokens};

/// No event or metric is named beside the lists in `telemetry`, which declare each name once.
pub fn written_out(file: &File) -> Vec<Finding> {
    let tokens = tokens(&file.shipped);
    let places = tokens.windows(4).filter_map(|window| {
        let text = |index: usize| window[index].text;
        let records = matches!(text(0), "counter" | "gauge" | "histogram");
        match (text(0), text(1), text(2)) {
            ("event", "=", _) => Some(window[2].at),
            (_, "!", "(") if records => Some(window[3].at),
            _ => None,
        }
    });
    let names = places.filter_map(|at| file.literal(at).map(|name| (at, name)));
    let message = |name| format!("write the constant of '{name}' in crates/telemetry/src/events.rs or metrics.rs");
    names.map(|(at, name)| file.finding(at, "name", message(name))).collect()
}

#[cfg(test)]
mod tests {
    use telemetry::events::EVENTS;
    use telemetry::metrics::METRICS;

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
    fn names_that_are_written_out_are_found() {
        let found = |text: &str| written_out(&File::new("src/a.rs", text)).len();
        assert_eq!(found("info!(\n    event = \"turn.accepted\", \"x\");\ninfo!(event = TURN_ACCEPTED, \"x\");"), 1);
        assert_eq!(found("counter!(\"a_total\").increment(1);\nmetrics::gauge!(\"b\").set(1);\ngauge!(C).set(1);"), 2);
        assert_eq!(
            found(
                "let event = next(); // event = \"x\"\nif event == \"y\" {}\n#[cfg(test)] mod t { fn f() { event = \"z\" } }"
            ),
            0
        );
    }
}
