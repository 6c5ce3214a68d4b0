//! Renders events of the program as events for clients.

use super::TurnEvents;
use domain::gate::{ApprovalDecision, Gate};
use domain::happening::{CallOrigin, Happening};
use domain::notice::gate::question_in_words;
use domain::tool::called::CallEnd;
use domain::tool::failure::ToolFailure;
use domain::turn::{Answer, Turn};
use domain::turn_event::{PREVIEW_MAX, ToolState, TurnUpdate};
use ports::Observer;

impl Observer for TurnEvents {
    fn observe(&self, happening: &Happening<'_>) {
        match *happening {
            Happening::TurnTaken { turn, .. } | Happening::TurnBegunAnew(turn) => {
                self.append(turn, || TurnUpdate::Accepted);
            }
            Happening::TurnQueued { turn, ahead } => self.append(turn, || TurnUpdate::Queued { ahead }),
            Happening::TurnAnswered(turn, answer) => self.append(turn, || answered(answer)),
            Happening::TurnClosed(turn, unanswered) => self.append(turn, || TurnUpdate::Done { unanswered }),
            Happening::TurnDecided(gate, decision) => self.gate(gate, Some(decision)),
            Happening::GateShown(gate) => self.gate(gate, None),
            Happening::TaskReported { gate, status } => self.task(gate, status),
            Happening::ToolBegan { turn, number, tool, arguments, is_refused: false } => self.append(turn, || {
                // Plain data with string keys always serializes.
                let arguments = serde_json::to_string(arguments).unwrap_or_default();
                update(tool, number, (ToolState::Running, None), &arguments)
            }),
            Happening::ToolProgressed { turn, number, tool, words } => {
                self.append(turn, || update(tool, number, (ToolState::Running, None), words));
            }
            Happening::ToolCalled(ref call) => {
                let (Some(end), entry) = (call.end, &call.call.entry) else { return };
                // A begun call continues after its question or its task.
                if matches!(end, CallEnd::Begun(_)) {
                    return;
                }
                let CallOrigin { id, person, place, .. } = call.origin;
                self.publish_of(Some(person), place, id, || {
                    update(&entry.name, call.number, (end.into(), end.failure()), &end.clone().told(entry.effect).text)
                });
            }
            _ => {}
        }
    }
}

impl TurnEvents {
    fn append(&self, turn: &Turn, update: impl FnOnce() -> TurnUpdate) {
        self.publish_of(Some(&turn.person), &turn.place, &turn.id, update);
    }

    fn gate(&self, gate: &Gate, decision: Option<&ApprovalDecision>) {
        // Clients ask about a gate; a task asks nothing.
        if gate.subject.task().is_some() {
            if decision.is_none() {
                self.task(gate, "");
            }
            return;
        }
        self.publish_of(Some(&gate.requester), &gate.place, &gate.turn, || TurnUpdate::Gate {
            id: gate.id.to_string(),
            question: question_in_words(gate),
            arguments: gate.arguments.clone(),
            subject: gate.subject.clone(),
            expires_at: gate.expires_at,
            decision: decision.map(ApprovalDecision::told),
        });
    }

    fn task(&self, gate: &Gate, status: &str) {
        self.publish_of(Some(&gate.requester), &gate.place, &gate.turn, || TurnUpdate::Task {
            id: gate.id.to_string(),
            name: gate.tool.clone(),
            status: status.to_owned(),
        });
    }
}

fn answered(answer: &Answer) -> TurnUpdate {
    TurnUpdate::answer(answer.outgoing.parts.as_slice().into(), &answer.outcome, &answer.effort)
}

fn update(name: &str, number: usize, (state, failure): (ToolState, Option<ToolFailure>), text: &str) -> TurnUpdate {
    let text: String = text.chars().take(PREVIEW_MAX).collect();
    let text = Some(text).filter(|text| !text.is_empty());
    TurnUpdate::Tool { call: number.to_string(), name: name.to_owned(), state, failure, text }
}
