//! `/approvals`: the pending decisions and the standing allowances.

use std::time::Duration;

use super::CommandParts;
use crate::messages::approvals::{ApprovalsMsg, Withdrawal};
use domain::command::{Command, Typing, WITHDRAW};
use domain::gate::allowance::Allowance;
use domain::gate::{Clicker, Gate};
use domain::happening::CommandOutcome;
use domain::ids::Person;
use domain::menu::{CHOICES_MAX, Choice};
use domain::notice::commands as words;
use domain::outgoing::Piece;

/// The timeout of a request to approvals.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the caller's own list, for operators all; or the confirmation of a withdrawal.
pub(super) async fn answer(parts: &CommandParts, command: &Command, operator: bool) -> (Piece, CommandOutcome) {
    let locale = command.caller.locale();
    let person = &command.caller.person;
    if let Some(id) = command.option(WITHDRAW).filter(|id| !id.is_empty()) {
        let which = Withdrawal::One { id: id.to_owned(), by: person.clone(), any: operator };
        let ask = |reply| ApprovalsMsg::Withdraw(which, reply);
        let gone = parts.approvals.call(ask, ANSWER_TIMEOUT).await.unwrap_or(0);
        let outcome = if gone > 0 { CommandOutcome::Done } else { CommandOutcome::Refused };
        return (Piece::text(words::withdrawn(id, gone > 0, locale)), outcome);
    }
    let mut gates = parts.approvals.call(ApprovalsMsg::List, ANSWER_TIMEOUT).await.unwrap_or_default();
    let clicker = Clicker::Member(command.caller.clone());
    gates.retain(|gate: &Gate| operator || gate.requester == *person || gate.is_for(&clicker));
    let allowances = own(parts, person, operator);
    (Piece::text(words::approvals(&gates, &allowances, locale)), CommandOutcome::Done)
}

/// Returns the allowances that the typing member can withdraw.
pub(super) fn choices(parts: &CommandParts, typing: &Typing) -> Vec<Choice> {
    let typed = typing.typed.trim().to_lowercase();
    let running = parts.basics.live.now();
    let rules = running.rules(&typing.caller.person.door);
    let operator = rules.is_some_and(|rules| rules.operators().include(&typing.caller));
    let known = own(parts, &typing.caller.person, operator).into_iter();
    let named = known.map(|Allowance { id, tool, .. }| Choice { name: format!("{id} {tool}"), value: id });
    named.filter(|choice| choice.name.to_lowercase().contains(&typed)).take(CHOICES_MAX).collect()
}

fn own(parts: &CommandParts, person: &Person, operator: bool) -> Vec<Allowance> {
    let mut known = parts.allowances.now(parts.basics.clock.now());
    known.retain(|allowance| operator || allowance.concerns(person));
    known.sort_by(|one, other| (one.until, &one.id).cmp(&(other.until, &other.id)));
    known
}
