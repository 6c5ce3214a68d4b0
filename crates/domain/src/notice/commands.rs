//! Answers to commands, in the caller's language. Each language has a table in its own file; a missing sentence or
//! argument is a compile error.

mod approvals;

mod dialogue;

mod english;

mod experiments;

mod german;

mod help;

mod linking;

mod memories;

mod settings;

mod spanish;
mod voice;

mod words;

use std::fmt::Write as _;
use std::time::Duration;

pub use self::approvals::{approvals, withdrawn};
pub use self::dialogue::{
    dialogue_buttons, dialogue_form, dialogue_is_empty, dialogue_problems, dialogue_saved, dialogue_title,
    form_buttons, home,
};
pub use self::experiments::experiments;
pub use self::help::{HelpPlace, help};
pub use self::linking::{link, link_code, link_refused, linked, unlinked};
pub use self::memories::{fact_forgotten, memories, remembered};
pub use self::settings::{
    change, model_chosen, model_default, models, no_such_model, setting_changed, setting_refused, settings,
};
pub use self::voice::{switch, voice, voice_notice};
use self::words::Words;
use super::report;
use super::template::{countdown, moment};
use crate::command::CommandKind;
use crate::daily::{DayUse, ToolUse};
use crate::kept::{Erasure, Wiped};
use crate::ledger::Tally;
use crate::limits::{AccountStanding, Cost};
use crate::locale::Locale;
use crate::overview::{Overview, Usage};
use crate::tool::server::Tooling;

/// A number of items of one kind, and its line.
type Counted = (usize, fn(usize) -> String);

const fn words(locale: Locale) -> &'static Words {
    match locale {
        Locale::English => &english::WORDS,
        Locale::Spanish => &spanish::WORDS,
        Locale::German => &german::WORDS,
    }
}

/// Returns the description of a command, at most 100 characters.
#[must_use]
pub fn description(kind: CommandKind, locale: Locale) -> &'static str {
    (words(locale).describe)(kind)
}

/// Returns the description of the option of `/model`, at most 100 characters.
#[must_use]
pub const fn row(locale: Locale) -> &'static str {
    words(locale).row
}

/// Returns the description of the option of `/approvals`, at most 100 characters.
#[must_use]
pub const fn withdraw(locale: Locale) -> &'static str {
    words(locale).withdraw
}

/// Returns the description of the option of `/usage`, at most 100 characters.
#[must_use]
pub const fn user(locale: Locale) -> &'static str {
    words(locale).user
}

/// Returns the description of the option of `/memories`, at most 100 characters.
#[must_use]
pub const fn fact(locale: Locale) -> &'static str {
    words(locale).fact
}

/// Returns the description of the option of `/tools`, at most 100 characters.
#[must_use]
pub const fn category(locale: Locale) -> &'static str {
    words(locale).category
}

/// Returns the description of the option of `/remember`, at most 100 characters.
#[must_use]
pub const fn remember(locale: Locale) -> &'static str {
    words(locale).remember
}

/// Says that only operators may run a command.
#[must_use]
pub fn operators_only(kind: CommandKind, locale: Locale) -> String {
    (words(locale).operators_only)(kind.name())
}

/// Says that only operators may see the usage of other members.
#[must_use]
pub const fn usage_of_others(locale: Locale) -> &'static str {
    words(locale).usage_of_others
}

/// Says that the command does not exist any more.
#[must_use]
pub const fn unknown(locale: Locale) -> &'static str {
    words(locale).unknown
}

/// Says that a command failed.
#[must_use]
pub const fn broken(locale: Locale) -> &'static str {
    words(locale).broken
}

/// Says that a command timed out.
#[must_use]
pub const fn too_slow(locale: Locale) -> &'static str {
    words(locale).too_slow
}

/// Says that a request to be forgotten is recorded and goes on by itself.
#[must_use]
pub const fn forgetting_goes_on(locale: Locale) -> &'static str {
    words(locale).forgetting_goes_on
}

/// Says that too many commands are running.
#[must_use]
pub const fn busy(locale: Locale) -> &'static str {
    words(locale).busy
}

/// Says that the member's earlier command is still running.
#[must_use]
pub const fn still_running(locale: Locale) -> &'static str {
    words(locale).still_running
}

/// Says in the terminal, in English, that no answer came.
#[must_use]
pub const fn unanswered() -> &'static str {
    "Sorry, no answer to this came. Please run it again."
}

/// Says that a new conversation begins.
#[must_use]
pub const fn new_conversation(remembered: bool, sound: bool, locale: Locale) -> &'static str {
    match (remembered, sound) {
        (true, true) => words(locale).begun_anew,
        (false, true) => words(locale).fresh_already,
        (_, false) => words(locale).begun_unsure,
    }
}

/// Lists the deleted and the retained data.
#[must_use]
pub fn forgotten(wiped: &Wiped, erasure: Erasure, locale: Locale) -> String {
    let words = words(locale);
    let mut lines = Vec::new();
    if wiped.conversations > 0 {
        lines.push((words.conversations)(wiped.conversations, wiped.messages));
    }
    let counted: [Counted; 6] = [
        (wiped.summaries, words.summaries),
        (wiped.answers, words.kept_for_replies),
        (wiped.quotes, words.quoted_in),
        (wiped.facts, words.facts),
        (wiped.audit, words.audit),
        (wiped.recorded, words.recorded),
    ];
    lines.extend(counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, line)| line(count)));
    if wiped.preferences {
        lines.push(words.choice.to_owned());
    }
    if wiped.usage {
        lines.push(words.tokens_used.to_owned());
    }
    let mut parts = vec![if lines.is_empty() { words.nothing_kept.to_owned() } else { list(words.forgotten, &lines) }];
    if wiped.in_flight > 0 {
        parts.push((words.still_answered)(wiped.in_flight));
    }
    let [headline, kept @ ..] = words.kept;
    parts.push(list(headline, kept));
    match erasure {
        Erasure::Done => {}
        Erasure::GoesOn => parts.push(words.forgetting_goes_on.to_owned()),
        Erasure::Unsure => parts.push(words.forget_again.to_owned()),
    }
    parts.join("\n\n")
}

/// Describes the contents of an export file.
#[must_use]
pub fn exported(counts: &Wiped, sound: bool, locale: Locale) -> String {
    let words = words(locale);
    let mut items =
        vec![(words.conversations)(counts.conversations, counts.messages), (words.kept_for_replies)(counts.answers)];
    let counted: [Counted; 4] = [
        (counts.summaries, words.summaries),
        (counts.facts, words.facts),
        (counts.audit, words.audit),
        (counts.recorded, words.recorded),
    ];
    items.extend(counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, item)| item(count)));
    if counts.usage {
        items.push(words.tokens_used.to_owned());
    }
    if counts.preferences {
        items.push(words.choice.to_owned());
    }
    let text = (words.exported)(&items.join(", "));
    if sound { text } else { format!("{text}\n{}", words.export_again) }
}

/// Returns the name of an export file.
#[must_use]
pub const fn export_name() -> &'static str {
    "what-staffai-keeps-about-you.json"
}

/// Shows a member's usage; `whose` is `None` for the caller's own.
#[must_use]
pub fn usage(usage: &Usage, whose: Option<&str>, locale: Locale) -> String {
    let words = words(locale);
    let mut lines = Vec::new();
    if let Some(standing) = &usage.standing {
        let [messages, messages_max] = [standing.messages.0, standing.messages.1].map(|all| number(all.into(), words));
        let [tokens, tokens_max] = [standing.tokens.0, standing.tokens.1].map(|all| number(all, words));
        let window = span(standing.window);
        lines.push((words.window)(whose, [&messages, &messages_max], [&tokens, &tokens_max], &window));
        lines.extend(standing.accounts.iter().map(|account| account_line(account, words)));
        if standing.exempt {
            lines.push(words.exempt.to_owned());
        } else if let Some(at) = standing.frees_at {
            lines.push((words.accepted)(&countdown(at)));
        }
    } else {
        lines.push(words.standing_unknown.to_owned());
    }
    let sums = [&usage.sums.today, &usage.sums.week, &usage.sums.total];
    for (when, tally) in words.sums.iter().zip(sums) {
        lines.push(format!("{when}: {}", used(tally, words)));
    }
    lines.join("\n")
}

/// Maximum number of members and tools listed in [`usage_of_all`].
const NAMED_OF_ALL: usize = 5;

/// Shows the usage of a day by members and tools, for operators.
#[must_use]
pub fn usage_of_all(day: &DayUse, locale: Locale) -> String {
    let words = words(locale);
    let mut text = format!("{}: {}", words.all_today, used(&day.ledger.total, words));
    for (person, tally) in day.ledger.members.iter().take(NAMED_OF_ALL) {
        let _ = write!(text, "\n- <@{}>: {}", person.id, used(tally, words));
    }
    if !day.tools.is_empty() {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let line =
            |tool: &ToolUse| format!("`{}`: {}", tool.tool, (words.calls)(count(tool.calls), count(tool.failed)));
        let lines: Vec<String> = day.tools.iter().take(NAMED_OF_ALL).map(line).collect();
        text.push('\n');
        text.push_str(&list(words.tools_today, &lines));
    }
    text
}

fn used(tally: &Tally, words: &Words) -> String {
    if tally.is_empty() {
        return words.nothing.to_owned();
    }
    let mut text = (words.tokens)(&number(tally.tokens, words));
    if tally.cached > 0 {
        text.push_str(&(words.cached)(&number(tally.cached, words)));
    }
    if tally.messages > 0 {
        text.push_str(&(words.for_messages)(usize::try_from(tally.messages).unwrap_or(usize::MAX)));
    }
    if tally.micros > 0 {
        let more = if tally.unpriced > 0 { words.unpriced } else { "" };
        let cost: String = report::dollars(tally.micros).chars().map(words.digit).collect();
        let _ = write!(text, ", {cost}{more}");
    }
    text
}

fn account_line(account: &AccountStanding, words: &Words) -> String {
    let [messages, tokens, calls] = words.amounts;
    let amount = |all: u64| match account.cost {
        Cost::Messages => format!("{} {messages}", number(all, words)),
        Cost::Tokens => format!("{} {tokens}", number(all, words)),
        Cost::Calls => format!("{} {calls}", number(all, words)),
        Cost::Dollars => report::dollars(all).chars().map(words.digit).collect(),
    };
    let (used, most) = (amount(account.used.0), amount(account.used.1));
    (words.account)(account.scope, [&used, &most], &span(account.window))
}

/// Returns the title of the card of `/status`.
#[must_use]
pub fn status_title(overview: &Overview) -> String {
    format!("staffai {}: {}", overview.version, overview.status)
}

/// Returns the text of the card of `/status`: current problems.
#[must_use]
pub fn status_text(overview: &Overview, locale: Locale) -> String {
    let words = words(locale);
    let mut lines: Vec<String> = overview.down.iter().map(|(part, why)| (words.down)(part, &brief(why))).collect();
    lines.extend(overview.rejected.as_ref().map(|why| (words.rejected)(&brief(why))));
    if lines.is_empty() { words.all_up.to_owned() } else { lines.join("\n") }
}

/// Returns the fields of the card of `/status`.
#[must_use]
pub fn status_facts(overview: &Overview, locale: Locale) -> Vec<(&'static str, String)> {
    let words = words(locale);
    let (up, shards) = overview.shards;
    let (answering, resting) = &overview.models;
    let mut models = answering.join(", ");
    if !resting.is_empty() {
        let resting = (words.left_alone)(&resting.join(", "));
        let _ = write!(models, "{}{resting}", if models.is_empty() { "" } else { "; " });
    }
    let listed = |pairs: &[(String, u64)]| {
        let all: Vec<String> = pairs.iter().map(|(name, count)| format!("{name} {count}")).collect();
        all.join(", ")
    };
    let queues = if overview.queues.is_empty() { words.empty.to_owned() } else { listed(&overview.queues) };
    let restarts = match overview.restarts {
        0 => words.none.to_owned(),
        all => format!("{all} ({})", listed(&overview.restarted)),
    };
    let bounds: Vec<String> =
        overview.bounds.iter().map(|(what, used, most)| format!("{what} {used}/{most}")).collect();
    let (messages, tokens, window) = overview.limits;
    let limits = (words.limits_are)(&number(messages, words), &number(tokens, words), &span(window));
    let store = if overview.store { words.store_works } else { words.store_fails };
    let mut facts = vec![
        (words.up_for, span(overview.uptime)),
        (words.configuration, overview.configuration.clone()),
        (words.shards, (words.connected)(up, shards)),
        (words.models, models),
        (words.store, store.to_owned()),
        (words.turns, (words.turns_so_far)(overview.in_flight, &number(overview.accepted, words))),
        (words.in_use, bounds.join(", ")),
        (words.queues, queues),
        (words.restarts, restarts),
        (words.limits, limits),
    ];
    facts.extend(overview.memory.map(|bytes| (words.memory, format!("{} MiB", bytes >> 20))));
    facts.retain(|(_, fact)| !fact.is_empty());
    facts
}

/// Lists the tools.
#[must_use]
pub fn tools(tooling: &Tooling, own: &[String], locale: Locale) -> String {
    let words = words(locale);
    let mut lines = Vec::with_capacity(tooling.servers.len() + 1);
    if !own.is_empty() {
        lines.push(format!("**{}**: {}", words.own_tools, some_names(own, words)));
    }
    for server in &tooling.servers {
        let tools =
            if server.tools.is_empty() { words.without_tools.to_owned() } else { some_names(&server.tools, words) };
        let about = server.about.as_deref().map(|about| format!(", {about}")).unwrap_or_default();
        let progress = server.progress.as_deref().map(|progress| format!(": {progress}")).unwrap_or_default();
        let verified = server.verified_at.map(|at| format!(", {}", (words.list_verified)(&moment(at))));
        let (state, verified) = (server.state.as_str(), verified.unwrap_or_default());
        let mut line = format!("**{}** ({state}{progress}{verified}{about}): {tools}", server.name);
        if !server.changed.is_empty() {
            let _ = write!(line, "; {}", (words.held_back)(&some_names(&server.changed, words)));
        }
        lines.push(line);
    }
    if lines.is_empty() { words.no_tools.to_owned() } else { list(words.tools, &lines) }
}

/// Lists the names of resources of each server; `None` stands for those of a server that cannot be asked now.
#[must_use]
pub fn resources(servers: &[(String, Option<Vec<String>>)], locale: Locale) -> String {
    let words = words(locale);
    let line = |(server, names): &(String, Option<Vec<String>>)| {
        let names = names.as_ref().map_or_else(|| words.not_listed.to_owned(), |names| some_names(names, words));
        format!("**{server}**: {names}")
    };
    let lines: Vec<String> = servers.iter().map(line).collect();
    if lines.is_empty() { words.no_resources.to_owned() } else { list(words.resources, &lines) }
}

/// Lists the first names and the number of further ones. Names come from the servers, so they are formatted as code.
fn some_names(names: &[String], words: &Words) -> String {
    const SHOWN: usize = 30;
    let plain = |name: &String| format!("`{}`", name.replace(['`', '\n'], " "));
    let shown: Vec<String> = names.iter().take(SHOWN).map(plain).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => (words.more_names)(&shown, more),
    }
}

/// Says that the tool lists are being reloaded.
#[must_use]
pub fn tools_refreshed(tooling: &Tooling, locale: Locale) -> String {
    match tooling.servers.len() {
        0 => words(locale).no_lists.to_owned(),
        servers => (words(locale).reading_lists)(servers),
    }
}

/// Says that prompts and settings are being reloaded.
#[must_use]
pub fn refreshed(version: &str, locale: Locale) -> String {
    (words(locale).refreshed)(version)
}

fn list(headline: &str, lines: &[impl AsRef<str>]) -> String {
    let mut text = headline.to_owned();
    for line in lines {
        let _ = write!(text, "\n- {}", line.as_ref());
    }
    text
}

/// Returns a count with its singular or plural.
fn many(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats a number with thousands separators of the language.
fn number(number: u64, words: &Words) -> String {
    report::grouped(number).chars().map(words.digit).collect()
}

/// Formats a duration in its two largest units.
fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (length, unit) in units {
        let count = rest / length;
        rest %= length;
        if count > 0 {
            parts.push(format!("{count} {unit}"));
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// Returns the beginning of an error without markup characters.
fn brief(why: &str) -> String {
    why.chars().filter(|c| !matches!(c, '`' | '*' | '\n')).take(200).collect()
}

#[cfg(test)]
mod tests;
