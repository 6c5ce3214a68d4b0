//! The lists of `/approvals`: waiting calls, and standing allowances.

use super::{list, words};
use crate::gate::Gate;
use crate::gate::allowance::Allowance;
use crate::ids::{Person, Place};
use crate::locale::Locale;
use crate::notice::template::countdown;

/// Maximum number of lines of a list, so that both lists fit into one message.
const LISTED_MAX: usize = 8;
/// Maximum number of argument characters in a line.
const ARGUMENTS_SHOWN: usize = 60;
/// Maximum number of digits of an entered id that are repeated.
const ID_SHOWN: usize = 8;

/// Lists the calls that wait for a decision, and the standing allowances.
#[must_use]
pub fn approvals(gates: &[Gate], allowances: &[Allowance], locale: Locale) -> String {
    let words = words(locale);
    let place = |place: &Place| format!("<#{}>", place.id);
    let person = |person: &Person| format!("<@{}>", person.id);
    let gates: Vec<String> = gates
        .iter()
        .take(LISTED_MAX)
        .map(|gate| {
            let Gate { tool, expires_at, .. } = gate;
            let line = (words.waits)(tool, &place(&gate.place), &gate.asker(), &countdown(*expires_at));
            format!("`{}`: {line}{}", &gate.id.as_str()[..ID_SHOWN], shortened(&gate.arguments))
        })
        .collect();
    let allowances: Vec<String> = allowances
        .iter()
        .take(LISTED_MAX)
        .map(|allowance| {
            let whose = allowance.person.as_ref().map(person);
            let Allowance { id, tool, until, .. } = allowance;
            let line = (words.allows)(id, tool, &place(&allowance.place), whose.as_deref(), &countdown(*until));
            format!("{line}{}", shortened(&allowance.arguments))
        })
        .collect();
    let told = |none: &str, headline: &str, lines: &[String]| {
        if lines.is_empty() { none.to_owned() } else { list(headline, lines) }
    };
    let waiting = told(words.nothing_waits, words.waiting, &gates);
    format!("{waiting}\n\n{}", told(words.nothing_allowed, words.allowed, &allowances))
}

/// Returns the beginning of the arguments as shown, which contain no hidden characters and no backticks.
fn shortened(arguments: &str) -> String {
    let line = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(ARGUMENTS_SHOWN).collect();
    let cut = if shown.len() < line.len() { "…" } else { "" };
    format!("; `{shown}{cut}`")
}

/// Says that an allowance is withdrawn, or that it does not exist.
#[must_use]
pub fn withdrawn(id: &str, done: bool, locale: Locale) -> String {
    let words = words(locale);
    let id: String = id.chars().filter(char::is_ascii_hexdigit).take(ID_SHOWN).collect();
    if done { (words.withdrawn)(&id) } else { (words.no_such_allowance)(&id) }
}
