//! The supervision tree as data. Read this first: who exists, who watches whom, and what happens when one fails.
//!
//! Start order is the order of the rows, stop order its reverse. A row with `<` in its name is a template: children of that
//! kind are started while the program runs. `wiring.rs` turns each row into a running actor.

use std::fmt::Write as _;
use std::time::Duration;

use crate::domain::restart::{Backoff, Intensity, Restart};

/// One actor, or one kind of actor, of the tree.
pub struct Row {
    /// What it is, for the wiring.
    pub kind: ActorKind,
    /// Its name among its siblings.
    pub name: &'static str,
    /// What it is for, in one line.
    pub role: &'static str,
    /// When it is started again.
    pub restart: Restart,
    /// How long it waits before it is started again.
    pub backoff: Backoff,
    /// How often its children may fail before it gives up itself.
    pub intensity: Intensity,
    /// How long its orderly stop may take before it is killed.
    pub stop_within: Duration,
    /// Whom it supervises, in start order.
    pub children: &'static [Row],
}

/// The actors of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each row says what its kind is for")]
pub enum ActorKind {
    Root,
    Ops,
    Journal,
    Outbox,
    TerminalOutbox,
    RateLimiter,
    RestrictionSweeper,
    LlmDispatcher,
    Conversations,
    Conversation,
    PresenceScheduler,
    Commands,
    Reporter,
    ConfigWatcher,
    Gateway,
    Discord,
    IdentifyQueue,
    Shard,
}

/// At once after a first failure, then with full jitter up to five seconds.
const QUICK: Backoff = Backoff { base: Duration::from_millis(20), cap: Duration::from_secs(5) };

/// Deep in the tree failures are kept local for longer than at its root, so that intensities do not multiply.
const BRANCH: Intensity = Intensity { restarts: 10, period: Duration::from_secs(60) };

/// A supervisor waits for its children when it stops, so it has longer than any one of them.
const BRANCH_STOPS: Duration = Duration::from_secs(5);

/// A leaf has no children whose failures could be counted.
const LEAF: Intensity = Intensity { restarts: 0, period: Duration::from_secs(60) };

const fn leaf(kind: ActorKind, name: &'static str, role: &'static str) -> Row {
    let stop_within = Duration::from_secs(2);
    Row { kind, name, role, restart: Restart::Permanent, backoff: QUICK, intensity: LEAF, stop_within, children: &[] }
}

/// The tree.
pub static TREE: Row = Row {
    kind: ActorKind::Root,
    name: "staffai",
    role: "gives up with exit 70 when a branch keeps failing",
    restart: Restart::Permanent,
    backoff: QUICK,
    intensity: Intensity { restarts: 5, period: Duration::from_secs(60) },
    stop_within: Duration::from_secs(10),
    children: &[
        leaf(
            ActorKind::Ops,
            "ops",
            "healthz, readyz, metrics, the living tree; a line about the tree every minute",
        ),
        leaf(ActorKind::Journal, "journal", "custody of every accepted turn until its answer is posted"),
        leaf(
            ActorKind::Outbox,
            "outbox:discord",
            "the only way out: order per channel, budgets, nonce, retries, typing",
        ),
        leaf(ActorKind::TerminalOutbox, "outbox:terminal", "the same for sessions in the terminal"),
        leaf(
            ActorKind::RateLimiter,
            "rate_limiter",
            "lets turns through within the limits, and settles what they took",
        ),
        leaf(
            ActorKind::RestrictionSweeper,
            "restriction_sweeper",
            "gives the role of restricted members; lifts it on time",
        ),
        leaf(ActorKind::LlmDispatcher, "llm_dispatcher", "model permits, breakers, the order of fallbacks"),
        Row {
            intensity: BRANCH,
            stop_within: BRANCH_STOPS,
            children: &[Row {
                restart: Restart::Temporary,
                ..leaf(
                    ActorKind::Conversation,
                    "conversation:<channel>",
                    "a lane for each user: one turn at a time in a lane, lanes side by side",
                )
            }],
            ..leaf(
                ActorKind::Conversations,
                "conversations",
                "routes a turn to its conversation; an idle one asks to be forgotten",
            )
        },
        leaf(ActorKind::PresenceScheduler, "presence_scheduler", "how the bot is shown: hours, days, a line of status"),
        leaf(
            ActorKind::Commands,
            "commands",
            "what members run beside talking: a task for each, answered to its caller alone",
        ),
        leaf(ActorKind::Reporter, "reporter", "posts what was used, once in each interval"),
        leaf(
            ActorKind::ConfigWatcher,
            "config_watcher",
            "reads changed files again, and puts them in force when they are right",
        ),
        leaf(ActorKind::Gateway, "gateway", "the one way in: triage, permit, journal"),
        Row {
            intensity: BRANCH,
            stop_within: BRANCH_STOPS,
            children: &[
                leaf(
                    ActorKind::IdentifyQueue,
                    "identify_queue",
                    "asks Discord for its advice; lets shards identify within max_concurrency and the daily budget",
                ),
                leaf(
                    ActorKind::Shard,
                    "shard:<n>",
                    "owns one gateway connection: resume, backoff, stored session, catch-up",
                ),
            ],
            ..leaf(ActorKind::Discord, "discord", "starts as many shards as configured or advised")
        },
    ],
};

impl Row {
    /// The row of a kind below (or at) this one.
    #[must_use]
    pub fn find(&'static self, kind: ActorKind) -> Option<&'static Row> {
        if self.kind == kind {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(kind))
    }

    /// Children of this kind are started while the program runs.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.name.contains('<')
    }

    fn policy(&self) -> String {
        let own = self.restart.as_str();
        if self.children.is_empty() {
            return own.to_owned();
        }
        let Intensity { restarts, period } = self.intensity;
        format!("{own}; its children one_for_one, {restarts} in {} s", period.as_secs())
    }
}

/// The tree as text for a terminal.
#[must_use]
pub fn text() -> String {
    let mut lines = Vec::new();
    draw(&TREE, "", "", &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, row) in lines {
        let _ = writeln!(text, "{name:width$}  {:60}  {}", row.policy(), row.role);
    }
    text
}

/// The tree as the block that stands in `actors.md`.
#[must_use]
pub fn markdown() -> String {
    let mut lines = Vec::new();
    draw(&TREE, "", "", &mut lines);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::from("```text\n");
    for (name, row) in lines {
        let _ = writeln!(text, "{}", format!("{name:width$}  {}", row.role).trim_end());
    }
    text.push_str("```\n\n| actor | restart | backoff | its children | stops within |\n|---|---|---|---|---|\n");
    table(&TREE, &mut text);
    text
}

fn draw(row: &'static Row, lead: &str, indent: &str, lines: &mut Vec<(String, &'static Row)>) {
    lines.push((format!("{lead}{}", row.name), row));
    for (index, child) in row.children.iter().enumerate() {
        let (branch, below) = if index + 1 == row.children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(child, &format!("{indent}{branch}"), &format!("{indent}{below}"), lines);
    }
}

fn table(row: &'static Row, text: &mut String) {
    let children = if row.children.is_empty() {
        "none".to_owned()
    } else {
        let Intensity { restarts, period } = row.intensity;
        format!("one_for_one, {restarts} restarts in {} s, then it fails itself", period.as_secs())
    };
    let backoff = match row.restart {
        Restart::Temporary => "none".to_owned(),
        Restart::Permanent | Restart::Transient => {
            format!("{} ms to {} s, full jitter", row.backoff.base.as_millis(), row.backoff.cap.as_secs())
        }
    };
    let stop = row.stop_within.as_secs();
    let _ = writeln!(text, "| `{}` | {} | {backoff} | {children} | {stop} s |", row.name, row.restart.as_str());
    for child in row.children {
        table(child, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(row: &'static Row, check: &impl Fn(&'static Row)) {
        check(row);
        row.children.iter().for_each(|child| every(child, check));
    }

    #[test]
    fn a_supervisor_has_longer_to_stop_than_any_of_its_children() {
        every(&TREE, &|row| {
            let longest = row.children.iter().map(|child| child.stop_within).max().unwrap_or_default();
            assert!(row.stop_within > longest, "{}", row.name);
        });
    }

    #[test]
    fn a_branch_bears_more_than_the_root_so_that_failures_stay_in_it() {
        for branch in TREE.children.iter().filter(|row| !row.children.is_empty()) {
            assert!(branch.intensity.restarts > TREE.intensity.restarts, "{}", branch.name);
            assert!(branch.intensity.period >= TREE.intensity.period, "{}", branch.name);
        }
    }

    #[test]
    fn whoever_is_restarted_waits_a_bounded_while_before() {
        every(&TREE, &|row| {
            let Backoff { base, cap } = row.backoff;
            assert!(base > Duration::ZERO && base <= cap && cap < TREE.intensity.period, "{}", row.name);
        });
    }
}
