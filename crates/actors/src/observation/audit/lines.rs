//! Renders events of the program as audit lines.

use serde_json::Value;

use super::Audit;
use domain::audit::{AuditEvent, AuditLine, Decider};
use domain::gate::allowance::Allowance;
use domain::gate::{ApprovalDecision, Choice, Gate};
use domain::happening::{Happening, ToolCalled};
use domain::hosted::HostedCall;
use domain::ids::{Person, Timestamp};
use domain::tool::Source;
use domain::turn::Turn;
use ports::Observer;

impl Observer for Audit {
    fn observe(&self, happening: &Happening<'_>) {
        match *happening {
            Happening::ToolCalled(ref call) | Happening::CommandCalled(ref call) => {
                self.note(self.called(call), call.origin.at);
            }
            Happening::HostedToolCalled { turn, call, .. } => self.note(self.hosted(turn, call), turn.at),
            Happening::GateAsked { gate, .. } => self.note(asked(gate), gate.asked_at),
            Happening::GateDecided { gate, decision, choice, at } => self.note(decided(gate, decision, choice, at), at),
            Happening::CallAllowed { gate, allowance, at } => self.note(allowed(gate, allowance, at), at),
            // A forgotten member gets no audit line.
            Happening::AllowanceWithdrawn { allowance, by, forgotten: false, at } => {
                self.note(withdrawn(allowance, by, at), at);
            }
            _ => {}
        }
    }
}

impl Audit {
    /// A call that the provider of the model made. Its number in the turn and its duration are unknown.
    fn hosted(&self, turn: &Turn, call: &HostedCall) -> AuditLine {
        AuditLine {
            at: self.clock.now(),
            event: AuditEvent::Called {
                call: 0,
                outcome: call.end.as_str().to_owned(),
                server: call.server.clone(),
                rule: None,
                duration_ms: 0,
            },
            person: turn.person.clone(),
            place: turn.place.clone(),
            tool: call.name(),
            args_sha256: call.hash(),
            arguments: Some(call.arguments.clone()),
            turn: Some(turn.id.clone()),
        }
    }

    fn called(&self, call: &ToolCalled<'_>) -> AuditLine {
        let (origin, ready) = (call.origin, call.call);
        let server = match &ready.entry.tool.source {
            Source::BuiltIn => None,
            Source::Server(name) => Some(name.as_str().to_owned()),
        };
        AuditLine {
            at: self.clock.now(),
            event: AuditEvent::Called {
                call: call.number,
                outcome: call.outcome().to_owned(),
                server,
                rule: call.rule,
                duration_ms: domain::ids::millis(call.took),
            },
            person: origin.person.clone(),
            place: origin.place.clone(),
            tool: ready.entry.name.to_string(),
            args_sha256: ready.hash.clone(),
            arguments: Some(Value::Object(ready.arguments.clone()).to_string()),
            turn: Some(origin.id.clone()),
        }
    }
}

/// A line about a question.
fn line(gate: &Gate, event: AuditEvent, person: &Person, at: Timestamp) -> AuditLine {
    AuditLine {
        at,
        event,
        person: person.clone(),
        place: gate.place.clone(),
        tool: gate.tool.clone(),
        args_sha256: gate.hash.clone(),
        arguments: Some(gate.arguments.clone()),
        turn: Some(gate.turn.clone()),
    }
}

/// A restarted process that asks again writes the same line.
fn asked(gate: &Gate) -> AuditLine {
    let (gate_id, approvers) = (gate.id.clone(), gate.approvers.clone());
    let event = AuditEvent::Asked { gate: gate_id, approvers, expires_at: gate.expires_at };
    line(gate, event, &gate.requester, gate.asked_at)
}

fn decided(gate: &Gate, decision: &ApprovalDecision, choice: Option<Choice>, at: Timestamp) -> AuditLine {
    let by = match (decision.by(), choice) {
        (Some(_), _) => Decider::Person,
        (None, Some(_)) => Decider::Program,
        (None, None) => Decider::Nobody,
    };
    let event = AuditEvent::Decided { gate: gate.id.clone(), decision: decision.as_str().to_owned(), choice, by };
    line(gate, event, decision.by().unwrap_or(&gate.requester), at)
}

fn allowed(gate: &Gate, allowance: &Allowance, at: Timestamp) -> AuditLine {
    let event = AuditEvent::Allowed { allowance: allowance.id.clone(), until: allowance.until };
    line(gate, event, allowance.by.as_ref().unwrap_or(&gate.requester), at)
}

fn withdrawn(allowance: &Allowance, by: &Person, at: Timestamp) -> AuditLine {
    AuditLine {
        at,
        event: AuditEvent::Withdrawn { allowance: allowance.id.clone() },
        person: by.clone(),
        place: allowance.place.clone(),
        tool: allowance.tool.clone(),
        args_sha256: allowance.hash.clone(),
        arguments: Some(allowance.arguments.clone()),
        turn: None,
    }
}
