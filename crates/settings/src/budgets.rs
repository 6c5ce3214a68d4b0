//! `[[rate_limiter.limits]]`: limits with separate accounts.

use std::time::Duration;

use serde::Deserialize;

use super::read;
use domain::limits::Cost;
use domain::limits::account::{SHARES_MAX, Scope};
use domain::limits::budget::Budget;

/// The longest window in seconds: 31 days.
const LONGEST_WINDOW: u64 = 31 * 24 * 60 * 60;

/// One `[[rate_limiter.limits]]`: at least one of messages, tokens, dollars and calls.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetRow {
    /// The scope whose use is counted together.
    #[serde(deserialize_with = "read::word")]
    pub scope: Scope,
    /// The length of the sliding window, from a second to 31 days.
    #[serde(deserialize_with = "read::some_duration")]
    pub per: Duration,
    /// The answered messages within the window.
    #[serde(default)]
    pub messages: Option<u64>,
    /// The model tokens within the window.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The dollars within the window, by the prices of model rows, of speech and of pictures.
    #[serde(default)]
    pub dollars: Option<f64>,
    /// The tool calls within the window.
    #[serde(default)]
    pub calls: Option<u64>,
    /// Roles of the caller, one of which is required; for the scope `role`, the roles with an account.
    #[serde(default, deserialize_with = "read::texts")]
    pub roles: Vec<String>,
    /// Channels, including their threads.
    #[serde(default, deserialize_with = "read::texts")]
    pub channels: Vec<String>,
    /// Names of API keys.
    #[serde(default, deserialize_with = "read::texts")]
    pub keys: Vec<String>,
    /// Names or patterns of tools; only with calls.
    #[serde(default, deserialize_with = "read::texts")]
    pub tools: Vec<String>,
}

impl BudgetRow {
    /// Returns the limit of each configured cost.
    fn costs(&self) -> impl Iterator<Item = (Cost, u64)> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates, also below zero"
        )]
        let micros = self.dollars.map(|dollars| (dollars * 1e6).round() as u64);
        let all = [
            (Cost::Messages, self.messages),
            (Cost::Tokens, self.tokens),
            (Cost::Dollars, micros),
            (Cost::Calls, self.calls),
        ];
        all.into_iter().filter_map(|(cost, limit)| Some((cost, limit?)))
    }

    /// Returns one budget for each cost.
    pub fn budgets(&self) -> impl Iterator<Item = Budget> {
        self.costs().map(|(cost, limit)| {
            let Self { scope, per: window, roles, channels, keys, tools, .. } = self.clone();
            Budget { scope, cost, limit, window, roles, channels, keys, tools }
        })
    }

    /// Returns the mistake in the row with its remedy, if any.
    fn mistake(&self) -> Option<&'static str> {
        let accounts = self.costs().count();
        let seconds = self.per.as_secs();
        let of_turns = self.costs().any(|(cost, _)| cost != Cost::Calls);
        match self.scope {
            _ if accounts == 0 => Some("sets no limit; set messages, tokens, dollars or calls"),
            _ if self.dollars.is_some_and(|dollars| !(0.0..=1e6).contains(&dollars)) => {
                Some("dollars must be from 0 to 1000000")
            }
            _ if self.per.subsec_nanos() != 0 || !(1..=LONGEST_WINDOW).contains(&seconds) => {
                Some("per must be whole seconds, from 1s to 31d")
            }
            Scope::Role if self.roles.is_empty() => Some("has the scope role, which needs roles; set them"),
            Scope::Tool if of_turns => {
                Some("has the scope tool, which counts calls only; remove messages, tokens and dollars")
            }
            _ if of_turns && !self.tools.is_empty() => {
                Some("has tools, which apply to calls only; remove messages, tokens and dollars")
            }
            _ => None,
        }
    }
}

/// Returns a sentence with the mistake in the rows and its remedy, if any.
#[must_use]
pub fn mistake(rows: &[BudgetRow]) -> Option<String> {
    let accounts = |row: &BudgetRow| row.costs().count() * if row.scope == Scope::Role { row.roles.len() } else { 1 };
    if rows.iter().map(accounts).sum::<usize>() > SHARES_MAX {
        return Some(format!(
            "need more than {SHARES_MAX} counters: one per cost of a row, with the scope role one per cost and role; remove some"
        ));
    }
    let found = (1..).zip(rows).find_map(|(number, row)| Some((number, row.mistake()?)));
    found.map(|(number, mistake)| format!("row {number} {mistake}"))
}
