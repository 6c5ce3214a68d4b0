//! Standing allowances: an approver let the very same call run for a while in one place.

use serde::{Deserialize, Serialize};

use super::{ALLOWED_FOR, Clicker, Gate};
use crate::arguments_hash::ArgumentsHash;
use crate::ids::{Person, Place, Timestamp};

/// The most allowances that are kept; the one that ends first makes room.
pub const ALLOWANCES_MAX: usize = 1_000;

/// Digits of an allowance's id.
const ID_DIGITS: usize = 8;

/// The word of an approver for further calls of the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Names it for whoever withdraws it.
    pub id: String,
    /// Where it holds.
    pub place: Place,
    /// The call that it lets run.
    pub hash: ArgumentsHash,
    /// The name of the tool in calls.
    pub tool: String,
    /// The arguments, as people were shown them.
    pub arguments: String,
    /// Whose calls it lets run; none for those of everybody in the place.
    pub person: Option<Person>,
    /// The roles that the rule named when it was given: it holds no longer than the rule does.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// Who gave it; none for a program.
    pub by: Option<Person>,
    /// Until when it holds.
    pub until: Timestamp,
}

impl Allowance {
    /// The allowance that comes with a decision about this gate. What the person who asked allows holds for their own calls;
    /// what a named approver allows holds for everybody in the place.
    #[must_use]
    pub fn of(gate: &Gate, by: &Clicker, now: Timestamp) -> Self {
        let person = gate.approvers.is_empty().then(|| gate.requester.clone());
        let by = match by {
            Clicker::Member(caller) => Some(caller.person.clone()),
            Clicker::Client(_, person) => person.clone(),
        };
        Self {
            id: gate.id.as_str()[..ID_DIGITS].to_owned(),
            place: gate.place.clone(),
            hash: gate.hash.clone(),
            tool: gate.tool.clone(),
            arguments: gate.arguments.clone(),
            person,
            approvers: gate.approvers.clone(),
            by,
            until: Timestamp(now.0 + crate::ids::millis(ALLOWED_FOR)),
        }
    }

    /// Whether it lets this call of a person in a place run now, where rules name these approvers.
    #[must_use]
    pub fn lets_run(&self, asked: &Asked<'_>, now: Timestamp) -> bool {
        now < self.until
            && self.hash == *asked.hash
            && self.place == *asked.place
            && self.approvers == asked.approvers
            && self.person.as_ref().is_none_or(|person| person == asked.person)
    }

    /// Whether somebody may see it and take it back, besides operators: whoever gave it, and whose calls it is about.
    #[must_use]
    pub fn concerns(&self, person: &Person) -> bool {
        self.by.as_ref() == Some(person) || self.person.as_ref() == Some(person)
    }
}

/// A call that would have to be approved.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What it is.
    pub hash: &'a ArgumentsHash,
    /// Whose.
    pub person: &'a Person,
    /// Where.
    pub place: &'a Place,
    /// Ids of the roles that rules name for it.
    pub approvers: &'a [String],
}
