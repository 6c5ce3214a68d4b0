//! Daily usage reports for operators: members, tools and the bot's own purposes. Each list is bounded; sums cover all
//! entries.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::audit::{AuditEvent, AuditLine};
use super::ids::Person;
use super::ledger::{self, Overview};
use super::tool::called::CallEnd;

/// Maximum number of days in one report.
pub const DAYS_MAX: usize = 31;
/// Maximum number of members listed per day, those with the most tokens.
pub const MEMBERS_MAX: usize = 50;
/// Maximum number of tools listed per day, those with the most calls.
pub const TOOLS_MAX: usize = 50;

/// The usage of one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayUse {
    /// The day, in UTC.
    pub day: Date,
    /// Tokens, messages and costs, with at most [`MEMBERS_MAX`] members.
    pub ledger: Overview,
    /// The number of all members, listed or not.
    pub members: usize,
    /// At most [`TOOLS_MAX`] tools, most calls first.
    pub tools: Vec<ToolUse>,
    /// The number of all tools, listed or not.
    pub tools_all: usize,
}

/// The calls of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUse {
    /// The name used in calls.
    pub tool: String,
    /// The number of calls, including denied ones.
    pub calls: u64,
    /// The number of calls that did not succeed.
    pub failed: u64,
    /// The number of members for whom it was called.
    pub members: u64,
    /// The total duration of all calls, in milliseconds.
    pub duration_ms: u64,
}

impl DayUse {
    /// Creates the report of a day from its sums and its tool calls.
    #[must_use]
    pub fn new(day: Date, mut ledger: Overview, mut tools: Vec<ToolUse>) -> Self {
        let (members, tools_all) = (ledger.members.len(), tools.len());
        ledger.members.truncate(MEMBERS_MAX);
        tools.truncate(TOOLS_MAX);
        Self { day, ledger, members, tools, tools_all }
    }
}

/// Returns the tool calls by day, most calls first.
#[must_use]
pub fn tools(lines: impl IntoIterator<Item = AuditLine>) -> BTreeMap<Date, Vec<ToolUse>> {
    let mut days: BTreeMap<Date, BTreeMap<String, (ToolUse, BTreeSet<Person>)>> = BTreeMap::new();
    for line in lines {
        let AuditEvent::Called { outcome, duration_ms, .. } = &line.event else { continue };
        let day = days.entry(ledger::date(line.at)).or_default();
        let (used, members) = day.entry(line.tool).or_default();
        used.calls += 1;
        used.failed += u64::from(outcome != CallEnd::OK);
        used.duration_ms = used.duration_ms.saturating_add(*duration_ms);
        members.insert(line.person);
    }
    let of_day = |tools: BTreeMap<String, (ToolUse, BTreeSet<Person>)>| {
        let named = |(tool, (used, members)): (String, (ToolUse, BTreeSet<Person>))| ToolUse {
            tool,
            members: members.len() as u64,
            ..used
        };
        let mut tools: Vec<ToolUse> = tools.into_iter().map(named).collect();
        tools.sort_by_key(|used| std::cmp::Reverse(used.calls));
        tools
    };
    days.into_iter().map(|(day, tools)| (day, of_day(tools))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments_hash::ArgumentsHash;
    use crate::ids::{Door, Place, Timestamp, TurnId};

    const DOOR: Door = Door::new("discord");
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

    fn called(tool: &str, who: &str, at: u64, outcome: &str) -> AuditLine {
        let (call, outcome) = (1, outcome.to_owned());
        AuditLine {
            at: Timestamp(at),
            event: AuditEvent::Called { call, outcome, server: None, rule: None, duration_ms: 10 },
            person: Person::new(DOOR, who),
            place: Place::new(DOOR, "42"),
            tool: tool.to_owned(),
            args_sha256: ArgumentsHash("ab".to_owned()),
            arguments: None,
            turn: Some(TurnId::new(DOOR, "10")),
        }
    }

    #[test]
    fn calls_are_counted_by_day_and_tool() {
        let withdrawn = AuditEvent::Withdrawn { allowance: "x".to_owned() };
        let lines = [
            called("roll_dice", "7", 1, "ok"),
            called("get_time", "7", 2, "ok"),
            called("get_time", "8", 3, "denied"),
            called("roll_dice", "7", DAY_MS, "ok"),
            AuditLine { event: withdrawn, ..called("get_time", "9", 4, "ok") },
        ];
        let days: Vec<Vec<ToolUse>> = tools(lines).into_values().collect();
        let used = |tool: &str, calls, failed, members| ToolUse {
            tool: tool.to_owned(),
            calls,
            failed,
            members,
            duration_ms: calls * 10,
        };
        assert_eq!(
            days,
            [vec![used("get_time", 2, 1, 2), used("roll_dice", 1, 0, 1)], vec![used("roll_dice", 1, 0, 1)]]
        );
    }

    #[test]
    fn lists_of_a_day_are_bounded_and_say_how_many_there_are() {
        let member = |id: usize| (Person::new(DOOR, id.to_string()), ledger::Tally::default());
        let overview = Overview { members: (0..MEMBERS_MAX + 3).map(member).collect(), ..Overview::default() };
        let tools = vec![ToolUse::default(); TOOLS_MAX + 2];
        let day = DayUse::new(ledger::date(Timestamp(0)), overview, tools);
        assert_eq!((day.ledger.members.len(), day.members), (MEMBERS_MAX, MEMBERS_MAX + 3));
        assert_eq!((day.tools.len(), day.tools_all), (TOOLS_MAX, TOOLS_MAX + 2));
    }
}
