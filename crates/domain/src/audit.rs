//! The tool audit: tool calls, approval requests and decisions. Each event is one line about exactly one person, so
//! that all data about a person can be found and erased without reading lines about others.

use serde::{Deserialize, Serialize};

use super::arguments_hash::ArgumentsHash;
use super::gate::{Choice, GateId};
use super::ids::{Person, Place, Timestamp, TurnId};
use super::tool::rights::matches;

/// The maximum number of calls kept per day; further calls appear only in the log.
pub const CALLS_MAX: u64 = 5_000;
/// The maximum number of lines per day. The lines above [`CALLS_MAX`] are reserved for questions, decisions and
/// allowances.
pub const LINES_MAX: u64 = 6_000;

/// One audit line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// The time, in milliseconds since 1970.
    pub at: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: AuditEvent,
    /// The person who called, is asked for approval of a call, decided, or withdrew; the author of the request if a
    /// program or the timeout decided.
    pub person: Person,
    /// The place.
    pub place: Place,
    /// The name of the tool in calls.
    pub tool: String,
    /// The hash of the server, the tool and the arguments.
    pub args_sha256: ArgumentsHash,
    /// The arguments; only if content may be logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The turn; `None` for an allowance that is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
}

/// An audited event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AuditEvent {
    /// A tool call ended or was rejected.
    Called {
        /// The number of the call in its turn.
        call: usize,
        /// `ok`, or the reason for the failure.
        outcome: String,
        /// The tool server; `None` for a built-in tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The number of the rule that decided; `None` if no rule matched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<usize>,
        /// Milliseconds from the call's position in the round to its end.
        duration_ms: u64,
    },
    /// A person receives a request to approve a call.
    Asked {
        /// The question.
        gate: GateId,
        /// Ids of the roles that may decide; if empty, the author of the request decides.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvers: Vec<String>,
        /// The time at which the question expires and counts as refused.
        expires_at: Timestamp,
    },
    /// A question was decided.
    Decided {
        /// The question.
        gate: GateId,
        /// `approved`, `denied`, `expired` and so on.
        decision: String,
        /// The choice of the decider; `None` if there was no decider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<Choice>,
        /// The decider.
        by: Decider,
    },
    /// An allowance was granted: the same call runs without approval for a while.
    Allowed {
        /// The id of the allowance.
        allowance: String,
        /// The end of the allowance.
        until: Timestamp,
    },
    /// An allowance was withdrawn.
    Withdrawn {
        /// The id of the allowance.
        allowance: String,
    },
}

/// The decider of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// The person of the line.
    Person,
    /// No person and no program, for example after a timeout.
    Program,
    /// No decider: the question expired.
    Nobody,
}

impl AuditLine {
    /// Returns the suffix that distinguishes the line from other lines of the same person and time. Equal events have
    /// equal suffixes.
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

    /// Returns the order among lines of the same time: the question, then its decision, then the call.
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

    /// Returns the maximum number of lines per day up to which a line of this kind is kept.
    #[must_use]
    pub const fn day_max(&self) -> u64 {
        match &self.event {
            AuditEvent::Called { .. } => CALLS_MAX,
            _ => LINES_MAX,
        }
    }
}

/// A filter for audit lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Lines from this time on.
    pub since: Option<Timestamp>,
    /// Lines of tools whose names match this pattern, with `*` for any characters.
    pub tool: Option<String>,
    /// Lines of this person: an id, or a door and an id, as in `discord:42`.
    pub member: Option<String>,
}

impl AuditFilter {
    /// True if the line matches the filter.
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
            AuditFilter { since, tool: tool.map(str::to_owned), member: member.map(str::to_owned) }.fits(&called())
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
