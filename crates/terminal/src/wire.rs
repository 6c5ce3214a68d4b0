//! The events of turns as this door's clients read them: one JSON object each, answers as text.

use serde::{Deserialize, Serialize};

use super::sessions::TEXT_LIMIT;
use domain::ending::Dropped;
use domain::ids::Timestamp;
use domain::layout::lay_out;
use domain::notice::template;
use domain::outgoing::{Capabilities, Part};
use domain::turn_event::{GateDecision, ToolState, TurnEvent, TurnUpdate};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number: rising, and the `id` of the event as well. A client that comes back names the last one that it has.
    pub number: u64,
    /// The id of the message that began the turn; empty for `missed`.
    #[serde(default)]
    pub turn: String,
    /// What happened.
    #[serde(flatten)]
    pub update: Update,
}

/// What happened. The meaning of each is that of [`TurnUpdate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Update {
    /// The message was taken.
    Accepted,
    /// It waits for earlier ones.
    Queued {
        /// How many are before it.
        ahead: usize,
    },
    /// The answer grew.
    Draft {
        /// The text that follows on the draft so far.
        text: String,
        /// The draft begins here.
        anew: bool,
    },
    /// A call of a tool.
    Tool {
        /// Its id, unique in the turn.
        call: String,
        /// The tool's name.
        name: String,
        /// How it is.
        state: ToolState,
        /// What is shown of it: its arguments, how far it is, or what came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A call that waits for approval.
    Gate {
        /// The id that a decision names.
        id: String,
        /// What is asked.
        question: String,
        /// When it counts as refused, in milliseconds since the Unix epoch.
        expires_at: u64,
        /// What was decided; absent while it is open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<GateDecision>,
    },
    /// The whole answer.
    Final {
        /// Its text.
        text: String,
    },
    /// Why there is no better answer.
    Apology {
        /// Its text, behind what was drafted.
        text: String,
    },
    /// Nothing more follows on this turn.
    Done {
        /// Why it has no answer: what was drafted of one, or given as one, does not stand any more. Absent behind an answer or an
        /// apology that stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<Unanswered>,
    },
    /// The reader was too slow, or came too late: events up to this number are gone. The stream may end behind it.
    Missed,
}

/// Why a turn ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// Its message was deleted, or a client stopped it.
    Stopped,
    /// A limit refused it, and its sender was told so lately.
    OverLimit,
    /// There was too much to do to take it, and its sender was told so lately.
    NotTaken,
    /// It ended for another reason of which nothing is said.
    #[serde(other)]
    Dropped,
}

impl Unanswered {
    const fn of(why: Dropped) -> Self {
        match why {
            Dropped::TriggerDeleted => Self::Stopped,
            Dropped::OverLimit(_) => Self::OverLimit,
            Dropped::NotTaken => Self::NotTaken,
            Dropped::Silent(_) | Dropped::NotRepeated => Self::Dropped,
        }
    }
}

impl Update {
    /// The end of a turn behind its answer.
    pub const DONE: Self = Self::Done { unanswered: None };
}

impl Event {
    /// The event as it is sent at this moment.
    #[must_use]
    pub fn of(event: &TurnEvent, now: Timestamp) -> Self {
        Self::laid_out(event, now).0
    }

    /// The same, and whether it is sent so at any moment: an answer that counts down to a moment is not.
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
            TurnUpdate::Tool { call, name, state, text } => {
                Update::Tool { call: call.clone(), name: name.clone(), state: *state, text: text.clone() }
            }
            TurnUpdate::Gate { id, question, arguments, expires_at, decision } => Update::Gate {
                id: id.clone(),
                // The arguments are shown as they are, whatever they look like.
                question: format!("{}\n{arguments}", template::spelled_out(question, now)),
                expires_at: expires_at.0,
                decision: *decision,
            },
            TurnUpdate::Final { parts, .. } => Update::Final { text: words(parts) },
            TurnUpdate::Apology { parts, .. } => Update::Apology { text: words(parts) },
            TurnUpdate::Done { unanswered } => Update::Done { unanswered: unanswered.map(Unanswered::of) },
        };
        (Self { number: event.number, turn: event.turn.id.to_string(), update }, lasting)
    }

    /// Events up to this number are gone.
    #[must_use]
    pub const fn missed(number: u64) -> Self {
        Self { number, turn: String::new(), update: Update::Missed }
    }
}

/// An answer as text, and whether it is that at any moment. A terminal shows no marks of a platform, so they are spelled out.
fn in_words(parts: &[Part], now: Timestamp) -> (String, bool) {
    let pieces = lay_out(parts, &Capabilities::text_only(TEXT_LIMIT));
    let texts: Vec<String> = pieces.into_iter().map(|piece| piece.text).collect();
    let text = texts.join("\n");
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
                TurnUpdate::Tool { call: "c".to_owned(), name: "roll".to_owned(), state: tool, text: None },
                r#"{"number":3,"turn":"9","event":"tool","call":"c","name":"roll","state":"running"}"#,
            ),
            (
                gate,
                r#"{"number":3,"turn":"9","event":"gate","id":"g","question":"May it, in 2 s?\n{\"at\": \"<t:3:R>\", \"who\": \"<@7>\"}","expires_at":5}"#,
            ),
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
