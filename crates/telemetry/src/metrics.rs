//! The names, descriptions and buckets of all metrics, and their recorder.
//!
//! No label contains the id of a user, a channel or a guild: their number is unbounded.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio_util::sync::CancellationToken;

use domain::shed::Shed;

/// The interval at which samples are aggregated if the metrics are not scraped: until then they take memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Buckets in seconds, from a cache hit to the longest turn.
const SECONDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0];

/// Buckets in seconds for the program's own short work.
const SHORT_SECONDS: &[f64] = &[0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// Buckets in seconds recommended by the OpenTelemetry conventions for model calls.
const MODEL_SECONDS: &[f64] = &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Buckets in tokens recommended by the OpenTelemetry conventions.
const TOKENS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, as scraped.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its description, with its labels.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy)]
pub enum MetricKind {
    /// A monotonic counter.
    Counter,
    /// A counter without labels that starts at zero, so that an alert can use it from the start.
    ZeroCounter,
    /// The same for each of these values of its single label.
    ZeroCounters(&'static str, &'static [&'static str]),
    /// A gauge.
    Gauge,
    /// A histogram with these upper bounds.
    Histogram(&'static [f64]),
}

/// Declares the name of each metric once, with its kind and its meaning.
macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:expr, $help:literal;)*) => {
        $(#[doc = concat!("The metric `", $name, "`.")] pub const $id: &str = $name;)*

        /// All metrics. A repository test checks that the source records no other.
        pub const METRICS: &[Metric] = &[$(Metric { name: $id, kind: $kind, help: $help }),*];
    };
}

metrics! {
    TURNS_TOTAL = "staffai_turns_total", MetricKind::Counter, "turns that ended, by door, trigger and outcome";
    TURN_SECONDS = "staffai_turn_seconds", MetricKind::Histogram(SECONDS), "time from the acceptance of a turn to its last message";
    TURN_OVERHEAD_SECONDS = "staffai_turn_overhead_seconds", MetricKind::Histogram(SHORT_SECONDS), "time of a turn not spent waiting for models or tools";
    FIRST_VISIBLE_SECONDS = "staffai_first_visible_seconds", MetricKind::Histogram(SECONDS), "time from the acceptance of a turn to its first visible text";
    TURNS_LOST_TOTAL = "staffai_turns_lost_total", MetricKind::ZeroCounter, "turns closed without a reply or an apology";
    TURNS_FENCED_TOTAL = "staffai_turns_fenced_total", MetricKind::ZeroCounter, "turns dropped here because another process owns them";
    ACTIVE = "staffai_active", MetricKind::Gauge, "1 while this process is active, 0 while it stands by";
    RANGES_FREE = "staffai_ranges_free", MetricKind::Gauge, "ranges of the bot's work that no process holds, as this process read last; only with `cluster.ranges` above 1";
    FORWARDED_REQUESTS_TOTAL = "staffai_forwarded_requests_total", MetricKind::Counter, "requests that this process received while it stood by and passed on to the active one, by outcome (`answered`, `refused`, `unreachable` or `broken`)";
    TERM = "staffai_term", MetricKind::Gauge, "fencing token of this process for the turns of a door, by door: higher with each owner, 0 once another process owns them";
    TURNS_DOUBLED_TOTAL = "staffai_turns_doubled_total", MetricKind::ZeroCounter, "messages that were answered twice";
    EXPERIMENT_TURNS_TOTAL = "staffai_experiment_turns_total", MetricKind::Counter, "turns of experiments that ended, by experiment, arm and outcome (`replied` or `apologised`)";
    SHED_TOTAL = "staffai_shed_total", MetricKind::ZeroCounters("where", &Shed::LABELS), "work rejected because of overload, by where";
    COMMANDS_TOTAL = "staffai_commands_total", MetricKind::Counter, "commands that ended, by command and outcome";
    ACTOR_RESTARTS_TOTAL = "staffai_actor_restarts_total", MetricKind::Counter, "restarts, by actor";
    ACTOR_FAILURES_TOTAL = "staffai_actor_failures_total", MetricKind::Counter, "actor failures, by actor";
    ACTOR_HUNG_TOTAL = "staffai_actor_hung_total", MetricKind::Counter, "handlers that exceeded their time limit, by actor";
    POISON_MESSAGES_TOTAL = "staffai_poison_messages_total", MetricKind::Counter, "messages discarded after repeated actor failures, by actor";
    MAILBOX_DEPTH = "staffai_mailbox_depth", MetricKind::Gauge, "waiting messages, by actor";
    MAILBOX_REFUSED_TOTAL = "staffai_mailbox_refused_total", MetricKind::Counter, "messages that an actor did not take, by actor and reason (`full` or `down`)";
    BUILD_INFO = "staffai_build_info", MetricKind::Gauge, "always 1, by version";
    UPTIME_SECONDS = "staffai_uptime_seconds", MetricKind::Gauge, "time since the start of the root supervisor";
    PROCESS_MEMORY_BYTES = "staffai_process_memory_bytes", MetricKind::Gauge, "resident memory of the process";
    PROCESS_CPU_SECONDS = "staffai_process_cpu_seconds", MetricKind::Gauge, "processor time used by the process";
    CONFIG_REJECTED = "staffai_config_rejected", MetricKind::Gauge, "1 while changed files are invalid and the previous settings stay in effect, else 0";
    PART_UP = "staffai_part_up", MetricKind::Gauge, "1 while a door, shard, store, model row or tool server works, else 0, NaN once it is removed, by kind and name";
    MCP_STATE = "staffai_mcp_state", MetricKind::Gauge, "state of a tool server, by server: 4 ready, 3 degraded, 2 open, 1 starting, 0 stopped";
    MCP_CLIENT_OPERATION_DURATION_SECONDS = "mcp_client_operation_duration_seconds", MetricKind::Histogram(SECONDS), "duration of requests to tool servers, by method and error";
    BREAKER_OPEN = "staffai_breaker_open", MetricKind::Gauge, "1 while the circuit breaker of a model is open, else 0, by model";
    BOUND_USED = "staffai_bound_used", MetricKind::Gauge, "permits or turns in use, by bound";
    BOUND_MAX = "staffai_bound_max", MetricKind::Gauge, "size of a bound, by bound";
    LLM_COST_DOLLARS = "staffai_llm_cost_dollars", MetricKind::Gauge, "cost of model calls since the start, for rows with prices, by model";
    SUMMARIES_TOTAL = "staffai_summaries_total", MetricKind::Counter, "attempts to summarise older exchanges of conversations, by outcome";
    LIMIT_REFUSED_TOTAL = "staffai_limit_refused_total", MetricKind::ZeroCounters("tier", &["messages", "tokens", "dollars"]), "requests over a limit, by tier";
    RESTRICTIONS_ACTIVE = "staffai_restrictions_active", MetricKind::Gauge, "active restrictions";
    GATES_OPEN = "staffai_gates_open", MetricKind::Gauge, "tool calls that wait for an approval";
    GATES_TOTAL = "staffai_gates_total", MetricKind::Counter, "approval requests for tool calls, by decision";
    HOSTED_TOOL_CALLS_TOTAL = "staffai_hosted_tool_calls_total", MetricKind::Counter, "tool calls made by the provider of a model, by tool and outcome";
    GATEWAY_EVENTS_TOTAL = "staffai_gateway_events_total", MetricKind::Counter, "incoming events, by kind";
    DISCORD_REQUESTS_TOTAL = "staffai_discord_requests_total", MetricKind::Counter, "requests to Discord, by status";
    STORE_DEGRADED = "staffai_store_degraded", MetricKind::Gauge, "1 while the store fails and state is kept in memory, else 0";
    STORE_WRITES_TOTAL = "staffai_store_writes_total", MetricKind::Counter, "writes sent to the store";
    STORE_COMMIT_SECONDS = "staffai_store_commit_seconds", MetricKind::Histogram(SHORT_SECONDS), "duration of store commits";
    GEN_AI_CLIENT_TOKEN_USAGE = "gen_ai_client_token_usage", MetricKind::Histogram(TOKENS), "tokens of model calls, by operation, model and type";
    GEN_AI_CLIENT_OPERATION_DURATION_SECONDS = "gen_ai_client_operation_duration_seconds", MetricKind::Histogram(MODEL_SECONDS), "duration of model calls, by operation, model and error";
    GEN_AI_EXECUTE_TOOL_DURATION_SECONDS = "gen_ai_execute_tool_duration_seconds", MetricKind::Histogram(MODEL_SECONDS), "duration of tool calls at the tool, by tool and error; calls that were not allowed are excluded";
}

/// The handle of the recorder.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Returns the page for Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Aggregates samples regularly, which bounds their memory. Runs until stopped.
    pub async fn upkeep(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(UPKEEP)).await.is_some() {
            self.0.run_upkeep();
        }
    }
}

/// Installs the recorder of this process. Must be called once, in `main`; before that, nothing is recorded.
///
/// # Errors
/// A recorder was installed before.
pub fn install() -> Result<Metrics, String> {
    let recorder = recorder().map_err(|error| format!("cannot build the metrics: {error}"))?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| "metrics were already installed in this process".to_owned())?;
    describe();
    Ok(Metrics(handle))
}

fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in METRICS {
        if let MetricKind::Histogram(buckets) = metric.kind {
            builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
        }
    }
    Ok(builder.build_recorder())
}

fn describe() {
    for Metric { name, kind, help } in METRICS {
        match kind {
            MetricKind::Counter => metrics::describe_counter!(*name, *help),
            MetricKind::ZeroCounter => {
                metrics::describe_counter!(*name, *help);
                metrics::counter!(*name).increment(0);
            }
            MetricKind::ZeroCounters(label, values) => {
                metrics::describe_counter!(*name, *help);
                for value in *values {
                    metrics::counter!(*name, *label => *value).increment(0);
                }
            }
            MetricKind::Gauge => metrics::describe_gauge!(*name, *help),
            MetricKind::Histogram(_) => metrics::describe_histogram!(*name, *help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_explains_its_counters_in_the_words_of_the_metrics() {
        let tiles = include_str!("../../web/src/api/dashboard/tiles.js");
        let names =
            ["limit_refused", "shed", "turns_lost", "turns_doubled"].map(|name| format!("staffai_{name}_total"));
        for metric in METRICS.iter().filter(|metric| names.iter().any(|name| name == metric.name)) {
            let meaning = metric.help.split(", by").next().unwrap_or_default();
            assert!(
                tiles.contains(metric.name) && tiles.contains(&format!("\"{meaning}\"")),
                "{}: {meaning}",
                metric.name
            );
        }
    }

    #[test]
    fn a_page_has_helps_zeros_and_buckets() {
        let recorder = recorder().unwrap();
        metrics::with_local_recorder(&recorder, || {
            describe();
            metrics::counter!(SHED_TOTAL, "where" => "door").increment(2);
            metrics::histogram!(TURN_SECONDS).record(0.3);
        });
        let page = Metrics(recorder.handle()).render();
        for line in [
            "# HELP staffai_shed_total work rejected because of overload, by where",
            "# TYPE staffai_shed_total counter",
            "staffai_shed_total{where=\"door\"} 2",
            "staffai_turns_lost_total 0",
            "staffai_shed_total{where=\"lane\"} 0",
            "# TYPE staffai_turn_seconds histogram",
            "staffai_turn_seconds_bucket{le=\"0.25\"} 0",
            "staffai_turn_seconds_bucket{le=\"0.5\"} 1",
            "staffai_turn_seconds_count 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
        }
    }

    #[test]
    fn names_are_unique_and_end_as_their_kind_demands() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let counts =
                matches!(metric.kind, MetricKind::Counter | MetricKind::ZeroCounter | MetricKind::ZeroCounters(..));
            assert_eq!(metric.name.ends_with("_total"), counts, "{}", metric.name);
        }
    }
}
