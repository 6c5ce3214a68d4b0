//! Renders events as log lines. The name of each event is in `telemetry::events`; its level, fields and message are
//! here.

mod actors;
mod calls;
mod commands;
mod floods;
mod gates;
mod restrictions;
mod servers;
mod shards;
mod turns;

use self::floods::Floods;
use domain::happening::Happening;
use ports::Observer;

/// The reader that writes the log lines.
#[derive(Default)]
pub(super) struct LogLines {
    floods: Floods,
}

impl Observer for LogLines {
    fn observe(&self, happening: &Happening<'_>) {
        match *happening {
            Happening::TurnTaken { turn, decided: Some(_) } => turns::accepted(turn),
            Happening::TurnParked(gate) => turns::parked(gate),
            Happening::TurnResumed(turn, how) => turns::resumed(turn, how),
            Happening::TurnPosted(ref posted) => turns::posted(posted),
            Happening::TurnDropped { turn, why, took } => {
                turns::refused(turn, Some((why.outcome(), took)), why.as_str(), turns::UNANSWERED);
            }
            Happening::TurnUndeliverable { turn, reason, took, posting } => {
                turns::undeliverable(turn, reason, took, posting);
            }
            Happening::TurnFenced(turn) => turns::fenced(turn),
            Happening::TurnPanicked(turn, panic) => turns::panicked(turn, panic),
            Happening::RestrictedSpoke(turn) => {
                turns::refused(turn, None, "restricted", "a restricted member is not answered here");
            }
            Happening::WorkShed(ref shed) => {
                if let Some(count) = self.floods.line_of(shed) {
                    turns::shed(shed, count);
                }
            }
            Happening::LimitRefused(turn, refusal) => turns::over_limit(turn, refusal),
            Happening::ModelCalled(ref call) => calls::model_called(call),
            Happening::ModelFellBack { turn, row, after } => calls::fell_back(turn, row, after),
            Happening::AnswerContinued(turn, row) => calls::continued(turn, row),
            Happening::ReplyRepaired(turn, repairs) => calls::repaired(turn, repairs),
            Happening::Summarised(ref summarised) => calls::summarised(summarised),
            Happening::RowRefused(row, reason) => calls::row_refused(row, reason),
            Happening::RowAccepted(row) => calls::row_accepted(row),
            Happening::BreakerOpened(row, reason) => calls::breaker_opened(row, reason),
            Happening::BreakerClosed(row) => calls::breaker_closed(row),
            Happening::ToolCalled(ref call) | Happening::CommandCalled(ref call) => calls::tool_called(call),
            Happening::ToolNotCalled { turn, tool, role, why } => calls::tool_not_called(turn, tool, role, why),
            Happening::HostedToolCalled { turn, row, role, call } => {
                calls::hosted_tool_called(&turn.id, row, role, call);
            }
            Happening::GateAsked { gate, again } => gates::asked(gate, again),
            Happening::GateDecided { gate, decision, choice, .. } => gates::decided(gate, decision, choice),
            Happening::GateRefused { gate, why, by, place } => gates::refused(gate, why, by, place),
            Happening::CallAllowed { gate, allowance, .. } => gates::allowed(gate, allowance),
            Happening::AllowanceWithdrawn { allowance, by, .. } => gates::withdrawn(allowance, by),
            Happening::Actor { path, change, .. } => actors::changed(path, change),
            Happening::Shard(shard, change) => shards::changed(shard, change),
            Happening::Server(server, change) => servers::changed(server, change),
            Happening::Command(change) => commands::changed(change),
            Happening::Restriction(member, change) => restrictions::changed(member, change),
            Happening::TurnTaken { .. }
            | Happening::TurnQueued { .. }
            | Happening::TurnReserved(..)
            | Happening::TurnStarted(_)
            | Happening::TurnBegunAnew(_)
            | Happening::TurnDecided(..)
            | Happening::TurnCharged(..)
            | Happening::TurnAnswered(..)
            | Happening::AnswerSeen(_)
            | Happening::TurnGivenUp(_)
            | Happening::TurnClosed(..)
            | Happening::ModelAsked(..)
            | Happening::ToolBegan { .. }
            | Happening::ToolProgressed { .. }
            | Happening::GateShown(_)
            | Happening::TaskReported { .. }
            | Happening::GatesOpen(_)
            | Happening::RestrictionsActive(_) => {}
        }
    }
}
