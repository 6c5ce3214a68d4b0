//! Log lines about questions, decisions and allowances.

use domain::gate::allowance::Allowance;
use domain::gate::{ApprovalDecision, Choice, ClickRefusal, Gate, GateId};
use domain::ids::{Person, Place};
use telemetry::events as names;

pub(super) fn asked(gate: &Gate, again: bool) {
    tracing::info!(
        event = names::GATE_ASKED, gate = %gate.id, turn = %gate.turn, tool = gate.tool, kind = gate.subject.as_str(),
        args_sha256 = gate.hash.0, again,
        "an approval was requested"
    );
}

pub(super) fn decided(gate: &Gate, decision: &ApprovalDecision, choice: Option<Choice>) {
    tracing::info!(
        event = names::GATE_DECIDED, gate = %gate.id, turn = %gate.turn, tool = gate.tool, args_sha256 = gate.hash.0,
        place = %gate.place, kind = gate.subject.as_str(), decision = decision.as_str(), by = decision.by().map(ToString::to_string),
        choice = choice.map(Choice::as_str), "an approval request was decided"
    );
}

pub(super) fn refused(gate: &GateId, why: ClickRefusal, by: &str, place: Option<&Place>) {
    tracing::info!(
        event = names::GATE_REFUSED, gate = %gate, reason = why.as_str(), by,
        place = place.map(ToString::to_string), "a click was rejected"
    );
}

pub(super) fn allowed(gate: &Gate, allowance: &Allowance) {
    let by = allowance.by.as_ref().unwrap_or(&gate.requester);
    tracing::info!(
        event = names::GATE_ALLOWED, allowance = allowance.id, tool = allowance.tool, args_sha256 = allowance.hash.0,
        place = %allowance.place, %by, "an allowance was granted"
    );
}

pub(super) fn withdrawn(allowance: &Allowance, by: &Person) {
    tracing::info!(
        event = names::GATE_WITHDRAWN, allowance = allowance.id, tool = allowance.tool, place = %allowance.place, %by,
        "an allowance was withdrawn; the call requires approval again"
    );
}
