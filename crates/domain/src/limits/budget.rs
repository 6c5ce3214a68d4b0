//! Budget rows of the operator: the accounts in which a turn or a tool call counts.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::account::{Account, Scope, Share};
use super::{Cost, community};
use crate::ids::{Person, Place};
use crate::wildcard::matches;

/// The number of hash bytes that distinguish accounts with different filters.
const FILTER_BYTES: usize = 4;

/// One limit set by the operator. An empty filter matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The scope whose use is summed up.
    pub scope: Scope,
    /// The cost.
    pub cost: Cost,
    /// The maximum amount per window; dollars are in millionths.
    pub limit: u64,
    /// The length of the sliding window, in whole seconds.
    pub window: Duration,
    /// Ids of roles; the caller must hold one of them. If the scope is the role: the roles that have an account.
    pub roles: Vec<String>,
    /// Ids of channels; a thread belongs to its channel.
    pub channels: Vec<String>,
    /// Names of programs' keys.
    pub keys: Vec<String>,
    /// Patterns of tool names; only for calls.
    pub tools: Vec<String>,
}

/// The payer of a turn or a call, with the place of the request.
#[derive(Debug, Clone, Copy)]
pub struct Payer<'a> {
    /// The person who made the request.
    pub person: &'a Person,
    /// The community.
    pub guild: Option<&'a str>,
    /// The ids of the person's roles.
    pub roles: &'a [String],
    /// The place of the request.
    pub place: &'a Place,
    /// The parent place.
    pub parent: Option<&'a Place>,
    /// True if the ids in rows belong to this door. At another door, a caller has no role and is in no channel that a
    /// row names.
    pub known: bool,
    /// True if the person is a program's key.
    pub is_key: bool,
}

/// Returns the accounts in which a turn counts: all except accounts of calls. Amounts are not set.
#[must_use]
pub fn of_turn(budgets: &[Budget], payer: Payer<'_>) -> Vec<Share> {
    shares(budgets.iter().filter(|budget| budget.cost != Cost::Calls), payer, "")
}

/// Returns the accounts in which a tool call counts, each with one call.
#[must_use]
pub fn of_call(budgets: &[Budget], payer: Payer<'_>, tool: &str) -> Vec<Share> {
    let mut shares = shares(budgets.iter().filter(|budget| budget.cost == Cost::Calls), payer, tool);
    for share in &mut shares {
        share.amount = Some(1);
    }
    shares
}

/// Returns one share for each account. Among rows of one account, rows that name a role of the caller take precedence;
/// among these, the most generous row applies.
fn shares<'a>(budgets: impl Iterator<Item = &'a Budget>, payer: Payer<'_>, tool: &str) -> Vec<Share> {
    let mut found: Vec<(bool, Share)> = Vec::new();
    for budget in budgets.filter(|budget| budget.holds_for(payer, tool)) {
        let by_role = !budget.roles.is_empty();
        for id in budget.ids(payer, tool) {
            let account = budget.account(payer, &id);
            let share = Share { account, limit: budget.limit, amount: None };
            match found.iter_mut().find(|(_, known)| known.account == share.account) {
                Some(known) if (known.0, known.1.limit) < (by_role, share.limit) => *known = (by_role, share),
                Some(_) => {}
                None => found.push((by_role, share)),
            }
        }
    }
    found.into_iter().map(|(_, share)| share).collect()
}

impl Budget {
    fn holds_for(&self, payer: Payer<'_>, tool: &str) -> bool {
        let is_in = |place: &Place| self.channels.iter().any(|channel| **channel == *place.id);
        (self.roles.is_empty() || (payer.known && payer.roles.iter().any(|role| self.roles.contains(role))))
            && (self.channels.is_empty() || (payer.known && (is_in(payer.place) || payer.parent.is_some_and(is_in))))
            && (self.keys.is_empty() || (payer.is_key && self.keys.iter().any(|key| **key == *payer.person.id)))
            && (self.tools.is_empty() || self.tools.iter().any(|pattern| matches(pattern, tool)))
    }

    /// Returns the ids of the payers in this scope.
    fn ids(&self, payer: Payer<'_>, tool: &str) -> Vec<String> {
        match self.scope {
            Scope::Member => vec![payer.person.id.to_string()],
            Scope::Role => payer.roles.iter().filter(|role| self.roles.contains(role)).cloned().collect(),
            Scope::Channel => vec![payer.parent.unwrap_or(payer.place).id.to_string()],
            Scope::Key if payer.is_key => vec![payer.person.id.to_string()],
            Scope::Key => Vec::new(),
            Scope::Tool => vec![tool.to_owned()],
            Scope::Guild => vec![String::new()],
        }
    }

    /// Returns the account of this id. The row's filters are part of its identity, except for the roles that the row
    /// applies to.
    fn account(&self, payer: Payer<'_>, id: &str) -> Account {
        let (channels, keys) = (&self.channels, &self.keys);
        let id = if channels.is_empty() && keys.is_empty() && self.tools.is_empty() {
            id.to_owned()
        } else {
            let filters = format!("{channels:?}{keys:?}{:?}", self.tools);
            let hash = Sha256::digest(filters);
            let hash: String = hash.iter().take(FILTER_BYTES).map(|byte| format!("{byte:02x}")).collect();
            format!("{id}#{hash}")
        };
        Account {
            scope: self.scope,
            cost: self.cost,
            window: self.window,
            community: community(payer.person, payer.guild).into(),
            id: Arc::from(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Door;

    const DOOR: Door = Door::new("discord");

    fn budget(scope: Scope, cost: Cost, limit: u64) -> Budget {
        let window = Duration::from_secs(60);
        Budget { scope, cost, limit, window, roles: vec![], channels: vec![], keys: vec![], tools: vec![] }
    }

    fn ids(shares: &[Share]) -> Vec<(&str, &str, u64)> {
        shares.iter().map(|share| (share.account.scope.as_str(), &*share.account.id, share.limit)).collect()
    }

    fn with_payer<T>(roles: &[&str], known: bool, then: impl FnOnce(Payer<'_>) -> T) -> T {
        let (person, roles) = (Person::new(DOOR, "7"), roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>());
        let (place, parent) = (Place::new(DOOR, "42"), Place::new(DOOR, "40"));
        let roles = &roles[..];
        then(Payer {
            person: &person,
            guild: Some("5"),
            roles,
            place: &place,
            parent: Some(&parent),
            known,
            is_key: false,
        })
    }

    #[test]
    fn each_scope_names_its_own_account() {
        let rows: Vec<Budget> = Scope::ALL.map(|scope| budget(scope, Cost::Tokens, 9)).into();
        let rows: Vec<Budget> = rows
            .into_iter()
            .map(
                |row| {
                    if row.scope == Scope::Role { Budget { roles: vec!["1".into(), "2".into()], ..row } } else { row }
                },
            )
            .collect();
        with_payer(&["1", "2", "3"], true, |payer| {
            let wanted = [
                ("member", "7", 9),
                ("role", "1", 9),
                ("role", "2", 9),
                ("channel", "40", 9),
                ("tool", "", 9),
                ("guild", "", 9),
            ];
            assert_eq!(ids(&of_turn(&rows, payer)), wanted);
            let as_key = of_turn(&rows, Payer { is_key: true, ..payer });
            assert!(ids(&as_key).contains(&("key", "7", 9)));
        });
    }

    #[test]
    fn a_row_with_a_role_of_the_caller_goes_before_the_others_and_the_most_generous_holds() {
        let of_role =
            |role: &str, limit| Budget { roles: vec![role.into()], ..budget(Scope::Member, Cost::Messages, limit) };
        let rows = [budget(Scope::Member, Cost::Messages, 50), of_role("1", 3), of_role("2", 8), of_role("3", 90)];
        assert_eq!(with_payer(&["1", "2"], true, |payer| ids_owned(&of_turn(&rows, payer))), [("7".to_owned(), 8)]);
        assert_eq!(with_payer(&[], true, |payer| ids_owned(&of_turn(&rows, payer))), [("7".to_owned(), 50)]);
        assert_eq!(with_payer(&["1"], false, |payer| ids_owned(&of_turn(&rows, payer))), [("7".to_owned(), 50)]);
    }

    fn ids_owned(shares: &[Share]) -> Vec<(String, u64)> {
        shares.iter().map(|share| (share.account.id.to_string(), share.limit)).collect()
    }

    #[test]
    fn calls_count_by_tool_and_turns_do_not() {
        let images = Budget { tools: vec!["image__*".into()], ..budget(Scope::Member, Cost::Calls, 5) };
        let rows = [images, budget(Scope::Guild, Cost::Dollars, 9)];
        with_payer(&[], true, |payer| {
            let [share] = &of_call(&rows, payer, "image__draw")[..] else { panic!() };
            assert!(share.account.id.starts_with("7#") && share.amount == Some(1) && share.limit == 5);
            assert_eq!(of_call(&rows, payer, "time__now"), []);
            assert_eq!(ids(&of_turn(&rows, payer)), [("guild", "", 9)]);
        });
    }
}
