//! Renders events as metrics. The name, kind and description of each metric are in `telemetry::metrics`.

mod models;

use std::collections::HashMap;
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use self::models::RowMeter;
use domain::command::CommandKind;
use domain::experiment::Trial;
use domain::happening::{ActorChange, CommandChange, Happening, ModelCalled, ServerChange, ToolCalled, TurnPosted};
use domain::tool::ServerName;
use domain::tool::server::ServerStatus;
use domain::turn::{Outcome, Turn};
use ports::Observer;
use telemetry::metrics as names;

/// The maximum number of model rows whose metric handles are cached; a changed configuration can add rows.
const ROWS: usize = 64;

/// The reader that updates counters and histograms.
#[derive(Default)]
pub(super) struct Meters {
    rows: Mutex<HashMap<String, RowMeter>>,
}

impl Observer for Meters {
    fn observe(&self, happening: &Happening<'_>) {
        if happening.loses_turn() {
            counter!(names::TURNS_LOST_TOTAL).increment(1);
        }
        match *happening {
            Happening::TurnPosted(ref posted) => turn_posted(posted),
            Happening::TurnDropped { turn, why, .. } => turn_ended(turn, why.outcome()),
            Happening::TurnUndeliverable { turn, .. } => turn_ended(turn, "failed"),
            Happening::TurnFenced(_) => counter!(names::TURNS_FENCED_TOTAL).increment(1),
            Happening::WorkShed(ref shed) => counter!(names::SHED_TOTAL, "where" => shed.at.as_str()).increment(1),
            Happening::LimitRefused(_, refusal) => {
                counter!(names::LIMIT_REFUSED_TOTAL, "tier" => refusal.cost.as_str()).increment(1);
            }
            Happening::ModelCalled(ref call) => self.model_called(call),
            Happening::Summarised(ref summarised) => {
                counter!(names::SUMMARIES_TOTAL, "outcome" => summarised.outcome.as_str()).increment(1);
            }
            Happening::BreakerOpened(row, _) => breaker(row, 1.0),
            Happening::BreakerClosed(row) => breaker(row, 0.0),
            Happening::ToolCalled(ref call) | Happening::CommandCalled(ref call) => tool_called(call),
            Happening::HostedToolCalled { call, .. } => {
                let (tool, outcome) = (call.name(), call.end.as_str());
                counter!(names::HOSTED_TOOL_CALLS_TOTAL, "tool" => tool, "outcome" => outcome).increment(1);
            }
            Happening::GateDecided { decision, .. } => {
                counter!(names::GATES_TOTAL, "decision" => decision.as_str()).increment(1);
            }
            #[expect(clippy::cast_precision_loss, reason = "there are never so many")]
            Happening::GatesOpen(many) => gauge!(names::GATES_OPEN).set(many as f64),
            Happening::Actor { label, change, .. } => actor_changed(label, change),
            Happening::Server(server, change) => server_changed(server, change),
            Happening::Command(CommandChange::Ended { command, outcome, .. }) => {
                let (command, outcome) = (CommandKind::label(command), outcome.as_str());
                counter!(names::COMMANDS_TOTAL, "command" => command, "outcome" => outcome).increment(1);
            }
            #[expect(clippy::cast_precision_loss, reason = "restrictions are far fewer than 2^52")]
            Happening::RestrictionsActive(many) => gauge!(names::RESTRICTIONS_ACTIVE).set(many as f64),
            _ => {}
        }
    }
}

impl Meters {
    fn model_called(&self, call: &ModelCalled<'_>) {
        let mut rows = self.rows.lock();
        match rows.get(call.row) {
            Some(meter) => meter.called(call),
            None => {
                let meter = RowMeter::of(call.row);
                meter.called(call);
                if rows.len() < ROWS {
                    rows.insert(call.row.to_owned(), meter);
                }
            }
        }
    }
}

fn turn_posted(posted: &TurnPosted<'_>) {
    let TurnPosted { turn, answer, doubled, took, visible_for, .. } = *posted;
    if doubled {
        counter!(names::TURNS_DOUBLED_TOTAL).increment(1);
    }
    let Some(answer) = answer else { return };
    let outcome = match answer.outcome {
        Outcome::Refused(_) => return turn_ended(turn, "refused"),
        Outcome::Replied => "replied",
        Outcome::Hinted => "hinted",
        Outcome::Apologised(_) => "apologised",
    };
    turn_ended(turn, outcome);
    if let Some(Trial { experiment, arm }) = answer.effort.trial.clone() {
        let labels = [("experiment", experiment), ("arm", arm), ("outcome", outcome.to_owned())];
        counter!(names::EXPERIMENT_TURNS_TOTAL, &labels).increment(1);
    }
    let waited = Duration::from_millis(answer.effort.waited_ms);
    histogram!(names::TURN_SECONDS).record(took);
    histogram!(names::TURN_OVERHEAD_SECONDS).record(took.saturating_sub(waited));
    histogram!(names::FIRST_VISIBLE_SECONDS).record(took.saturating_sub(visible_for));
}

fn turn_ended(turn: &Turn, outcome: &'static str) {
    let (door, trigger) = (turn.id.door.as_str().to_owned(), turn.trigger.as_str());
    counter!(names::TURNS_TOTAL, "door" => door, "trigger" => trigger, "outcome" => outcome).increment(1);
}

fn actor_changed(label: &str, change: ActorChange<'_>) {
    let add = |name, many| counter!(name, "actor" => label.to_owned()).increment(many);
    match change {
        // Registered at zero, so that metrics show the first change as an increase.
        ActorChange::Added => {
            add(names::ACTOR_RESTARTS_TOTAL, 0);
            add(names::ACTOR_FAILURES_TOTAL, 0);
            add(names::ACTOR_HUNG_TOTAL, 0);
        }
        ActorChange::Restarted(_) => add(names::ACTOR_RESTARTS_TOTAL, 1),
        ActorChange::Failed { .. } => add(names::ACTOR_FAILURES_TOTAL, 1),
        ActorChange::Hung { .. } => add(names::ACTOR_HUNG_TOTAL, 1),
        ActorChange::Poisoned(_) => add(names::POISON_MESSAGES_TOTAL, 1),
        _ => {}
    }
}

fn server_changed(server: &ServerName, change: ServerChange<'_>) {
    match change {
        ServerChange::Begun => server_status(server, &ServerStatus::Starting),
        ServerChange::Changed { to, .. } => server_status(server, to),
        ServerChange::Unusable(_) => server_status(server, &ServerStatus::Stopped(String::new())),
        ServerChange::Requested { request, error, took } => {
            let labels = [("mcp_method_name", request.method()), ("error_type", error.unwrap_or_default())];
            histogram!(names::MCP_CLIENT_OPERATION_DURATION_SECONDS, &labels).record(took);
        }
        ServerChange::Listed(_) | ServerChange::ListOdd(_) | ServerChange::ListUnread(_) => {}
    }
}

fn server_status(server: &ServerName, status: &ServerStatus) {
    gauge!(names::MCP_STATE, "server" => server.as_str().to_owned()).set(f64::from(status.gauge()));
}

fn breaker(row: &str, open: f64) {
    gauge!(names::BREAKER_OPEN, "model" => row.to_owned()).set(open);
}

fn tool_called(call: &ToolCalled<'_>) {
    let Some(ran) = call.ran else { return };
    let mut labels = vec![("gen_ai_tool_name", call.call.entry.name.to_string())];
    labels.extend(call.error().map(|error| ("error_type", error.to_owned())));
    histogram!(names::GEN_AI_EXECUTE_TOOL_DURATION_SECONDS, &labels).record(ran);
}
