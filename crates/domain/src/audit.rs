//! The audit of tools: what was called for whom, who was asked, and who decided what. One line each, which names one person alone, so
//! that what is kept about a person can be found and wiped without looking at the lines of others.

use serde::{Deserialize, Serialize};

use super::arguments_hash::ArgumentsHash;
use super::gate::{Choice, GateId};
use super::ids::{Person, Place, Timestamp, TurnId};
use super::tool::rights::matches;

/// The most calls that are kept of one day; the log has the others.
pub const CALLS_MAX: u64 = 5_000;
/// The most lines of one day. What is left above [`CALLS_MAX`] is for questions, decisions and allowances.
pub const LINES_MAX: u64 = 6_000;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// When, in milliseconds since 1970.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: AuditEvent,
    /// Who called, was asked for, decided, or took back; whoever asked where a program or the clock decided.
    pub person: Person,
    /// Where.
    pub place: Place,
    /// The name of the tool in calls.
    pub tool: String,
    /// The server, the tool and the arguments, as a hash.
    pub args_sha256: ArgumentsHash,
    /// The arguments; only where content may be logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The turn; none for an allowance that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AuditEvent {
    /// A tool was called, or was not let.
    Called {
        /// The number of the call in its turn.
        call: usize,
        /// `ok`, or why not.
        outcome: String,
        /// The tool server; none for what is built in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The number of the rule that decided; none when no rule did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<usize>,
        /// Milliseconds from its place in the round to its end.
        duration_ms: u64,
    },
    /// A person is asked about a call.
    Asked {
        /// The question.
        gate: GateId,
        /// Ids of the roles that decide; none leaves it to whoever asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvers: Vec<String>,
        /// When it counts as refused.
        expires_at: Timestamp,
    },
    /// It is decided.
    Decided {
        /// The question.
        gate: GateId,
        /// `approved`, `denied`, `expired` and so on.
        decision: String,
        /// What whoever decided chose; none where nobody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<Choice>,
        /// Who decided.
        by: Decider,
    },
    /// The very same call runs for a while without a question.
    Allowed {
        /// Names it.
        allowance: String,
        /// Until when.
        until: Timestamp,
    },
    /// That was taken back.
    Withdrawn {
        /// Names it.
        allowance: String,
    },
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// The person of the line.
    Person,
    /// A program that was let in.
    Program,
    /// Nobody did.
    Nobody,
}

impl AuditLine {
    /// What tells it from the other lines of its person and moment: the same event gives the same line.
    #[must_use]
    pub fn suffix(&self) -> String {
        match &self.event {
            AuditEvent::Called { call, .. } => {
                let turn = self.turn.as_ref().map(|turn| turn.id.as_str()).unwrap_or_default();
                format!("call-{turn}-{call}")
            }
            AuditEvent::Asked { gate, .. } => format!("asked-{gate}"),
            AuditEvent::Decided { gate, .. } => format!("decided-{gate}"),
            AuditEvent::Allowed { allowance, .. } => format!("allowed-{allowance}"),
            AuditEvent::Withdrawn { allowance } => format!("withdrawn-{allowance}"),
        }
    }

    /// Its place among lines of the same moment: a question comes before its decision, and that before the call.
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match &self.event {
            AuditEvent::Asked { .. } => 0,
            AuditEvent::Decided { .. } => 1,
            AuditEvent::Allowed { .. } => 2,
            AuditEvent::Called { .. } => 3,
            AuditEvent::Withdrawn { .. } => 4,
        }
    }

    /// The most lines of a day after which one of this kind is not kept any more.
    #[must_use]
    pub const fn day_max(&self) -> u64 {
        match &self.event {
            AuditEvent::Called { .. } => CALLS_MAX,
            _ => LINES_MAX,
        }
    }
}

/// Which lines somebody wants to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those from this moment on.
    pub since: Option<Timestamp>,
    /// Those of tools whose names fit this, with `*` for any characters.
    pub tool: Option<String>,
    /// Those of this person: an id, or a door and an id, as in `discord:42`.
    pub member: Option<String>,
}

impl Wanted {
    /// Whether a line is wanted.
    #[must_use]
    pub fn fits(&self, line: &AuditLine) -> bool {
        self.since.is_none_or(|since| line.at >= since)
            && self.tool.as_ref().is_none_or(|tool| matches(tool, &line.tool))
            && self.member.as_ref().is_none_or(|member| *member == line.person.id || *member == line.person.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::Door;

    fn line(event: AuditEvent) -> AuditLine {
        let door = Door::new("discord");
        AuditLine {
            at: Timestamp(5_000),
            event,
            person: Person::new(door.clone(), "7"),
            place: Place::new(door.clone(), "42"),
            tool: "fm__delete".to_owned(),
            args_sha256: ArgumentsHash("ab".to_owned()),
            arguments: None,
            turn: Some(TurnId::new(door, "10")),
        }
    }

    fn called() -> AuditLine {
        let event =
            AuditEvent::Called { call: 1, outcome: "ok".to_owned(), server: None, rule: Some(2), duration_ms: 30 };
        line(event)
    }

    #[test]
    fn a_line_is_one_flat_object_without_what_nobody_allowed_to_log() {
        let told = serde_json::to_value(called()).unwrap();
        let expected = json!({
            "at": 5000, "event": "called", "call": 1, "outcome": "ok", "rule": 2, "duration_ms": 30, "person": "discord:7",
            "place": "discord:42", "tool": "fm__delete", "args_sha256": "ab", "turn": "discord:10",
        });
        assert_eq!(told, expected);
        assert_eq!(serde_json::from_value::<AuditLine>(told).unwrap(), called());
    }

    #[test]
    fn lines_are_chosen_by_time_tool_and_member() {
        let wanted = |since, tool: Option<&str>, member: Option<&str>| {
            Wanted { since, tool: tool.map(str::to_owned), member: member.map(str::to_owned) }.fits(&called())
        };
        assert!(wanted(None, None, None) && wanted(Some(Timestamp(5_000)), Some("fm__*"), Some("7")));
        assert!(wanted(None, Some("fm__delete"), Some("discord:7")));
        assert!(!wanted(Some(Timestamp(5_001)), None, None));
        assert!(!wanted(None, Some("fs__*"), None) && !wanted(None, None, Some("terminal:7")));
    }

    #[test]
    fn calls_leave_room_for_decisions() {
        assert_eq!(called().day_max(), CALLS_MAX);
        let withdrawn = line(AuditEvent::Withdrawn { allowance: "ab".to_owned() });
        assert_eq!((withdrawn.day_max(), withdrawn.suffix().as_str()), (LINES_MAX, "withdrawn-ab"));
    }
}
