//! Standing allowances: an approver allowed the same call in one place for a limited time.

use serde::{Deserialize, Serialize};

use super::{ALLOWED_FOR, Clicker, Gate};
use crate::arguments_hash::ArgumentsHash;
use crate::ids::{Person, Place, Timestamp};

/// Maximum number of allowances. The one that ends first is evicted.
pub const ALLOWANCES_MAX: usize = 1_000;

const ID_DIGITS: usize = 8;

/// An approver's permission for further identical calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// The id, used to withdraw it.
    pub id: String,
    /// The place where it holds.
    pub place: Place,
    /// The call that it permits.
    pub hash: ArgumentsHash,
    /// The name of the tool in calls.
    pub tool: String,
    /// The arguments as shown to people.
    pub arguments: String,
    /// The member whose calls it permits. `None`: all members in the place.
    pub person: Option<Person>,
    /// The roles that the rule named when it was given. It ends when the rule changes.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// The member who gave it; `None` for a program.
    pub by: Option<Person>,
    /// The time when it ends.
    pub until: Timestamp,
}

impl Allowance {
    /// Creates the allowance for a decision about this gate. A requester allows only their own calls; an approver
    /// named by a rule allows the calls of all members in the place.
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

    /// True if it permits this call now, given the approvers that the rules name.
    #[must_use]
    pub fn lets_run(&self, asked: &GatedCall<'_>, now: Timestamp) -> bool {
        now < self.until
            && self.hash == *asked.hash
            && self.place == *asked.place
            && self.approvers == asked.approvers
            && self.person.as_ref().is_none_or(|person| person == asked.person)
    }

    /// True if this person may see and withdraw it, besides operators: the member who gave it, or whose calls it
    /// permits.
    #[must_use]
    pub fn concerns(&self, person: &Person) -> bool {
        self.by.as_ref() == Some(person) || self.person.as_ref() == Some(person)
    }
}

/// A call that requires approval.
#[derive(Debug, Clone, Copy)]
pub struct GatedCall<'a> {
    /// The identity of the call.
    pub hash: &'a ArgumentsHash,
    /// The member.
    pub person: &'a Person,
    /// The place.
    pub place: &'a Place,
    /// Ids of the roles that the rules name for it.
    pub approvers: &'a [String],
}
