//! What the log and the audit hear of questions, decisions and allowances.

use super::clicks::Clicked;
use super::{Approvals, Withdrawal};
use domain::audit::{AuditEvent, AuditLine, Decider};
use domain::gate::allowance::Allowance;
use domain::gate::{Decision, Gate};
use domain::ids::{Person, Timestamp};

/// A line of the audit about a question.
fn noted(gate: &Gate, event: AuditEvent, person: &Person, at: Timestamp) -> AuditLine {
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

impl Approvals {
    /// A person is asked about a call. A later life that asks again writes the same line.
    pub(super) fn note_asked(&self, gate: &Gate) {
        let asked =
            AuditEvent::Asked { gate: gate.id.clone(), approvers: gate.approvers.clone(), expires_at: gate.expires_at };
        self.audit.note(noted(gate, asked, &gate.requester, gate.asked_at), gate.asked_at);
    }

    /// It is decided.
    pub(super) fn note_decided(&self, gate: &Gate, decision: &Decision, click: Option<&Clicked>, at: Timestamp) {
        let by = match (decision.by(), click) {
            (Some(_), _) => Decider::Person,
            (None, Some(_)) => Decider::Program,
            (None, None) => Decider::Nobody,
        };
        let event = AuditEvent::Decided {
            gate: gate.id.clone(),
            decision: decision.as_str().to_owned(),
            choice: click.map(|clicked| clicked.click.choice),
            by,
        };
        self.audit.note(noted(gate, event, decision.by().unwrap_or(&gate.requester), at), at);
    }

    /// An allowance was taken back.
    pub(super) fn note_withdrawn(&self, allowance: &Allowance, which: &Withdrawal) {
        let (Withdrawal::One { by, .. } | Withdrawal::Of(by)) = which;
        tracing::info!(
            event = "gate.withdrawn", allowance = allowance.id, tool = allowance.tool, place = %allowance.place, %by,
            "a call needs a yes again"
        );
        // A member who is forgotten leaves no line.
        let Withdrawal::One { .. } = which else { return };
        let now = self.clock.now();
        let line = AuditLine {
            at: now,
            event: AuditEvent::Withdrawn { allowance: allowance.id.clone() },
            person: by.clone(),
            place: allowance.place.clone(),
            tool: allowance.tool.clone(),
            args_sha256: allowance.hash.clone(),
            arguments: Some(allowance.arguments.clone()),
            turn: None,
        };
        self.audit.note(line, now);
    }

    /// The very same call runs for a while without a question.
    pub(super) fn note_allowed(&self, gate: &Gate, allowance: &Allowance) {
        let by = allowance.by.as_ref().unwrap_or(&gate.requester);
        tracing::info!(
            event = "gate.allowed", allowance = allowance.id, tool = allowance.tool, args_sha256 = allowance.hash.0,
            place = %allowance.place, %by, "a call runs for a while without a question"
        );
        let event = AuditEvent::Allowed { allowance: allowance.id.clone(), until: allowance.until };
        let now = self.clock.now();
        self.audit.note(noted(gate, event, by, now), now);
    }
}
