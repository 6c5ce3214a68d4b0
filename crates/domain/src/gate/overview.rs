//! The open gates as operators see them: without arguments and texts, which belong to the people who decide.

use super::Gate;
use crate::ids::{Person, Place, Timestamp};

/// The most gates of one overview.
pub const OVERVIEW_MAX: usize = 100;

/// The open gates, the first to expire first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatesOverview {
    /// The number of all open gates.
    pub count: usize,
    /// The first of them, at most [`OVERVIEW_MAX`].
    pub first: Vec<OpenGate>,
}

/// One open gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenGate {
    /// The kind of the decision: `approval`, `form`, `link` or `task`.
    pub kind: &'static str,
    /// The name of the tool in calls.
    pub tool: String,
    /// The server that asks or works; `None` for an approval.
    pub server: Option<String>,
    /// The place where it must be decided.
    pub place: Place,
    /// The member who asked.
    pub requester: Person,
    /// Ids of the roles whose holders decide. Empty: the requester decides.
    pub approvers: Vec<String>,
    /// The time of the question.
    pub asked_at: Timestamp,
    /// The time from which it counts as refused.
    pub expires_at: Timestamp,
}

impl GatesOverview {
    /// Builds the overview of these gates.
    #[must_use]
    pub fn of<'a>(gates: impl Iterator<Item = &'a Gate>) -> Self {
        let mut gates: Vec<&Gate> = gates.collect();
        gates.sort_unstable_by(|one, other| (one.expires_at, &one.id).cmp(&(other.expires_at, &other.id)));
        let first = gates.iter().take(OVERVIEW_MAX).map(|gate| OpenGate::of(gate)).collect();
        Self { count: gates.len(), first }
    }
}

impl OpenGate {
    fn of(gate: &Gate) -> Self {
        let Gate { subject, tool, place, requester, approvers, asked_at, expires_at, .. } = gate;
        Self {
            kind: subject.as_str(),
            tool: tool.clone(),
            server: subject.server().map(ToOwned::to_owned),
            place: place.clone(),
            requester: requester.clone(),
            approvers: approvers.clone(),
            asked_at: *asked_at,
            expires_at: *expires_at,
        }
    }
}
