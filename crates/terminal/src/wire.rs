//! The events of turns in this door's format: one JSON object each, answers as text.

use serde::{Deserialize, Serialize};

use super::sessions::TEXT_LIMIT;
use domain::ending::Dropped;
use domain::gate::Subject;
use domain::ids::Timestamp;
use domain::layout::as_text;
use domain::notice::gate::is_bare;
use domain::notice::template;
use domain::outgoing::Part;
use domain::question::{Form, Link};
use domain::tool::failure::ToolFailure;
use domain::turn_event::{GateDecision, ToolState, TurnEvent, TurnUpdate};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, increasing, which is also the `id` of the event. A client resumes with the last number that it has.
    pub number: u64,
    /// The id of the message that began the turn; empty for `missed`.
    #[serde(default)]
    pub turn: String,
    /// The change.
    #[serde(flatten)]
    pub update: Update,
}

/// A change. Each has the meaning of the [`TurnUpdate`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Update {
    /// The message was accepted.
    Accepted,
    /// It is queued behind earlier ones.
    Queued {
        /// The number of messages before it.
        ahead: usize,
    },
    /// The draft of the answer grew.
    Draft {
        /// The text to append to the draft.
        text: String,
        /// True if the draft begins here.
        anew: bool,
    },
    /// A tool call.
    Tool {
        /// Its id, unique in the turn.
        call: String,
        /// The tool's name.
        name: String,
        /// Its state.
        state: ToolState,
        /// The category of its failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<ToolFailure>,
        /// Its arguments, its progress or its result, as shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A call that requires approval.
    Gate {
        /// The id for the decision.
        id: String,
        /// The question.
        question: String,
        /// The time at which it counts as denied, in milliseconds since the Unix epoch.
        expires_at: u64,
        /// The form that a tool's server asks to fill in: the decision carries `answers`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Form>,
        /// The page that a tool's server asks to open: approving continues after that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<Link>,
        /// The decision; absent while it is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<GateDecision>,
    },
    /// The complete answer.
    Final {
        /// Its text.
        text: String,
    },
    /// An apology in place of an answer.
    Apology {
        /// Its text, after the draft.
        text: String,
    },
    /// The last event of the turn.
    Done {
        /// The reason for a missing answer: earlier drafts and answers are retracted. Absent after a valid answer or
        /// apology.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<Unanswered>,
    },
    /// The reader was too slow or too late: events up to this number are lost. The stream may end after it.
    Missed,
}

/// The reason why a turn ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// Its message was deleted, or a client stopped it.
    Stopped,
    /// A limit refused it; its sender was notified recently.
    OverLimit,
    /// Overload; its sender was notified recently.
    NotTaken,
    /// Another reason, which is not disclosed.
    #[serde(other)]
    Dropped,
}

impl Unanswered {
    const fn of(why: Dropped) -> Self {
        match why {
            Dropped::TriggerDeleted => Self::Stopped,
            Dropped::OverLimit(_) => Self::OverLimit,
            Dropped::NotTaken => Self::NotTaken,
            Dropped::Silent(_) | Dropped::NotRepeated | Dropped::Fenced => Self::Dropped,
        }
    }
}

impl Update {
    /// The end of a turn after its answer.
    pub const DONE: Self = Self::Done { unanswered: None };
}

impl Event {
    /// Converts an event for sending now.
    #[must_use]
    pub fn of(event: &TurnEvent, now: Timestamp) -> Self {
        Self::laid_out(event, now).0
    }

    /// Like [`of`](Self::of), with true if the result does not depend on the time: an answer with a countdown does.
    #[must_use]
    pub fn laid_out(event: &TurnEvent, now: Timestamp) -> (Self, bool) {
        let mut lasting = true;
        let mut words = |parts: &[Part]| {
            let (text, lasts) = in_words(parts, now);
            lasting = lasts;
            text
        };
        let update = match &event.update {
            TurnUpdate::Accepted => Update::Accepted,
            TurnUpdate::Queued { ahead } => Update::Queued { ahead: *ahead },
            TurnUpdate::Draft { text, anew } => Update::Draft { text: text.clone(), anew: *anew },
            TurnUpdate::Tool { call, name, state, failure, text } => Update::Tool {
                call: call.clone(),
                name: name.clone(),
                state: *state,
                failure: *failure,
                text: text.clone(),
            },
            TurnUpdate::Task { id, name, status } => Update::Tool {
                call: id.clone(),
                name: name.clone(),
                state: ToolState::Running,
                failure: None,
                text: Some(status.clone()).filter(|status| !status.is_empty()),
            },
            TurnUpdate::Gate { id, question, arguments, subject, expires_at, decision } => Update::Gate {
                id: id.clone(),
                // Arguments are shown literally.
                question: match subject {
                    Subject::Approval if !is_bare(arguments) => {
                        format!("{}\n{arguments}", template::spelled_out(question, now))
                    }
                    Subject::Approval | Subject::Form { .. } | Subject::Link { .. } | Subject::Task(_) => {
                        template::spelled_out(question, now)
                    }
                },
                expires_at: expires_at.0,
                form: match subject {
                    Subject::Form { form, .. } => Some(form.clone()),
                    Subject::Approval | Subject::Link { .. } | Subject::Task(_) => None,
                },
                link: match subject {
                    Subject::Link { link, .. } => Some(link.clone()),
                    Subject::Approval | Subject::Form { .. } | Subject::Task(_) => None,
                },
                decision: *decision,
            },
            TurnUpdate::Final { parts, .. } => Update::Final { text: words(parts) },
            TurnUpdate::Apology { parts, .. } => Update::Apology { text: words(parts) },
            TurnUpdate::Done { unanswered } => Update::Done { unanswered: unanswered.map(Unanswered::of) },
        };
        (Self { number: event.number, turn: event.turn.id.to_string(), update }, lasting)
    }

    /// Reports that events up to this number are lost.
    #[must_use]
    pub const fn missed(number: u64) -> Self {
        Self { number, turn: String::new(), update: Update::Missed }
    }
}

/// Formats an answer as text, with true if it does not depend on the time. Terminals do not render platform marks, so
/// these are spelled out.
fn in_words(parts: &[Part], now: Timestamp) -> (String, bool) {
    let text = as_text(parts, TEXT_LIMIT);
    let spelled = template::spelled_out(&text, now);
    let lasting = spelled == text;
    (spelled, lasting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{Door, MessageId, TurnId};
    use domain::outgoing::{Card, File, Piece};
    use domain::turn::Effort;

    const NOW: Timestamp = Timestamp(1_000);

    fn told(update: TurnUpdate) -> String {
        let turn = TurnId::of(&MessageId::new(Door::new("terminal"), "9"));
        serde_json::to_string(&Event::of(&TurnEvent { number: 3, turn, update }, NOW)).unwrap()
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let text = "again <t:3:R>".to_owned();
        let parts = [Part::Text { text }].as_slice().into();
        let expires_at = Timestamp(5);
        let gate = TurnUpdate::Gate {
            id: "g".to_owned(),
            question: "May it, <t:3:R>?".to_owned(),
            arguments: r#"{"at": "<t:3:R>", "who": "<@7>"}"#.to_owned(),
            subject: Subject::Approval,
            expires_at,
            decision: None,
        };
        let bare = TurnUpdate::Gate {
            id: "g".to_owned(),
            question: "May it?".to_owned(),
            arguments: "{}".to_owned(),
            subject: Subject::Approval,
            expires_at,
            decision: None,
        };
        let tool = ToolState::Running;
        for (update, expected) in [
            (TurnUpdate::Accepted, r#"{"number":3,"turn":"9","event":"accepted"}"#),
            (TurnUpdate::Queued { ahead: 2 }, r#"{"number":3,"turn":"9","event":"queued","ahead":2}"#),
            (
                TurnUpdate::Final { parts, effort: Effort::default() },
                r#"{"number":3,"turn":"9","event":"final","text":"again in 2 s"}"#,
            ),
            (
                TurnUpdate::Tool {
                    call: "c".to_owned(),
                    name: "roll".to_owned(),
                    state: tool,
                    failure: None,
                    text: None,
                },
                r#"{"number":3,"turn":"9","event":"tool","call":"c","name":"roll","state":"running"}"#,
            ),
            (
                gate,
                r#"{"number":3,"turn":"9","event":"gate","id":"g","question":"May it, in 2 s?\n{\"at\": \"<t:3:R>\", \"who\": \"<@7>\"}","expires_at":5}"#,
            ),
            (bare, r#"{"number":3,"turn":"9","event":"gate","id":"g","question":"May it?","expires_at":5}"#),
            (TurnUpdate::DONE, r#"{"number":3,"turn":"9","event":"done"}"#),
            (
                TurnUpdate::unanswered(Dropped::TriggerDeleted),
                r#"{"number":3,"turn":"9","event":"done","unanswered":"stopped"}"#,
            ),
        ] {
            assert_eq!(told(update), expected);
        }
    }

    #[test]
    fn the_end_of_a_turn_is_read_as_other_versions_write_it() {
        let read = |text: &str| serde_json::from_str::<Event>(text).unwrap().update;
        assert_eq!(read(r#"{"number":3,"turn":"9","event":"done"}"#), Update::DONE);
        let later = read(r#"{"number":3,"turn":"9","event":"done","unanswered":"out of ink"}"#);
        assert_eq!(later, Update::Done { unanswered: Some(Unanswered::Dropped) });
    }

    #[test]
    fn cards_and_documents_are_told_in_words() {
        let card = Card { title: Some("staffai".to_owned()), text: "All parts are up.".to_owned(), ..Card::default() };
        let file = File::new("you.json", "application/json", *b"{\"a\": 1}");
        let piece = Piece { text: "Everything:".to_owned(), cards: vec![card], files: vec![file], ..Piece::default() };
        let told = in_words(&piece.into_parts(), NOW).0;
        for part in ["Everything:", "**staffai**\nAll parts are up.", "{\"a\": 1}"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
