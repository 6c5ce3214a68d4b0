//! The supervision tree as data. Read this first: who exists, who watches whom, and what happens when one fails.
//!
//! Start order is the order of the rows, stop order its reverse. A row is one actor or a template: one actor for each door,
//! place or number. Paths, handles, metric labels and what is recovered after a failure are taken from the rows.
//! `wiring.rs` turns each row into running actors.

mod mailbox;

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use domain::ids::{Door, Place};
use domain::restart::{Backoff, Intensity, Restart};
use domain::tool::ServerName;

pub use self::mailbox::{Mailbox, WhenFull};

/// The path of the root.
pub const ROOT: &str = "staffai";

/// One actor, or one kind of actor, of the tree.
pub struct Row {
    /// What it is, for the wiring.
    pub kind: ActorKind,
    /// Its name among its siblings.
    pub name: Name,
    /// What it is for, in one line.
    pub role: &'static str,
    /// When it is started again.
    pub restart: Restart,
    /// How long it waits before it is started again.
    pub backoff: Backoff,
    /// How often each of its children may fail, other than at what somebody outside wrote, before it gives up itself.
    pub intensity: Intensity,
    /// How long one of its handlers may run. Handlers wait for nothing but the stop of a child, so one that runs longer hangs.
    pub handles_within: Duration,
    /// What its supervisor does about a handler that hangs.
    pub on_hang: OnHang,
    /// How long its orderly stop may take before it is killed.
    pub stop_within: Duration,
    /// The messages of other actors that may wait for it, and what becomes of one more.
    pub mailbox: Mailbox,
    /// Whom it supervises, in start order.
    pub children: &'static [Row],
}

/// What a supervisor does about a child whose handler runs longer than its row allows. It is logged in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHang {
    /// Nothing else.
    Log,
    /// Kills the child, which counts as a failure, and starts it again.
    Restart,
}

impl OnHang {
    /// The word in logs and in the tree's table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "logged",
            Self::Restart => "killed and restarted",
        }
    }
}

/// How the actors of a row are named among their siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// There is one, and this is its name.
    Fixed(&'static str),
    /// There is one for each of these, named `prefix:id`.
    Template {
        /// What stands before the colon.
        prefix: &'static str,
        /// What there is an actor for each of.
        of: Instances,
    },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(name) => f.write_str(name),
            Self::Template { prefix, of } => write!(f, "{prefix}:<{}>", of.as_str()),
        }
    }
}

/// What a template has one actor for each of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instances {
    /// A door of this process. They are known before the tree starts, and their actors start with it.
    Door,
    /// A place. Its actor starts and stops while the program runs.
    Place,
    /// A tool server. Its actor starts and stops while the program runs.
    Server,
    /// A number, counted from zero. How many there are is known while the program runs.
    Number,
}

impl Instances {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Door => "door",
            Self::Place => "channel",
            Self::Server => "server",
            Self::Number => "n",
        }
    }
}

/// Which one of its row an actor is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The only one.
    One,
    /// That of a door.
    Door(Door),
    /// That of a place.
    Place(Place),
    /// That of a tool server.
    Server(ServerName),
    /// The one of this number.
    Number(u32),
}

/// The actors of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each row says what its kind is for")]
pub enum ActorKind {
    Root,
    Ops,
    Listener,
    Journal,
    Outbox,
    RateLimiter,
    RestrictionSweeper,
    Tools,
    ToolCache,
    Approvals,
    Providers,
    Mcp,
    LlmDispatcher,
    Conversations,
    Conversation,
    PresenceScheduler,
    Commands,
    Reporter,
    Timers,
    ConfigWatcher,
    Gateway,
    Source,
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

/// How long a handler may run. The longest know no wait: they read the records of an earlier life, or the answer of a platform.
const HANDLES_WITHIN: Duration = Duration::from_secs(5);

/// A handler of a branch may wait for the stop of one child, and for its kill after that.
const BRANCH_HANDLES_WITHIN: Duration = Duration::from_secs(10);

/// A leaf has no children whose failures could be counted.
const LEAF: Intensity = Intensity { restarts: 0, period: Duration::from_secs(60) };

const fn leaf(kind: ActorKind, name: &'static str, role: &'static str) -> Row {
    let (name, stop_within) = (Name::Fixed(name), Duration::from_secs(2));
    Row {
        kind,
        name,
        role,
        restart: Restart::Permanent,
        backoff: QUICK,
        intensity: LEAF,
        handles_within: HANDLES_WITHIN,
        on_hang: OnHang::Restart,
        stop_within,
        mailbox: Mailbox::NONE,
        children: &[],
    }
}

const fn template(kind: ActorKind, prefix: &'static str, of: Instances, role: &'static str) -> Row {
    Row { name: Name::Template { prefix, of }, ..leaf(kind, prefix, role) }
}

/// The tree.
pub static TREE: Row = Row {
    kind: ActorKind::Root,
    name: Name::Fixed(ROOT),
    role: "gives up with exit 70 when a branch keeps failing",
    restart: Restart::Permanent,
    backoff: QUICK,
    intensity: Intensity { restarts: 5, period: Duration::from_secs(60) },
    handles_within: BRANCH_HANDLES_WITHIN,
    // Nobody is above the root, and it handles nothing but the ends of its children.
    on_hang: OnHang::Log,
    stop_within: Duration::from_secs(10),
    mailbox: Mailbox::NONE,
    children: &[
        leaf(ActorKind::Ops, "ops", "healthz, readyz, metrics, the living tree; a line about the tree every minute"),
        template(
            ActorKind::Listener,
            "listener",
            Instances::Number,
            "serves the same at a further address, such as the port that clients of Ollama expect",
        ),
        leaf(ActorKind::Journal, "journal", "custody of every accepted turn until its answer is posted")
            .with(mailbox::JOURNAL),
        template(
            ActorKind::Outbox,
            "outbox",
            Instances::Door,
            "the only way out of a door: order per channel, budgets, nonce, retries, typing",
        )
        .with(mailbox::OUTBOX),
        leaf(
            ActorKind::RateLimiter,
            "rate_limiter",
            "lets turns through within the limits, and settles what they took",
        )
        .with(mailbox::RATE_LIMITER),
        leaf(
            ActorKind::RestrictionSweeper,
            "restriction_sweeper",
            "gives the role of restricted members; lifts it on time",
        )
        .with(mailbox::RESTRICTION_SWEEPER),
        Row {
            intensity: BRANCH,
            handles_within: BRANCH_HANDLES_WITHIN,
            stop_within: BRANCH_STOPS,
            children: &[
                leaf(ActorKind::ToolCache, "tool_cache", "makes the one catalogue of what all sources offer")
                    .with(mailbox::TOOL_CACHE),
                leaf(
                    ActorKind::Approvals,
                    "approvals",
                    "asks people about calls that wait for a yes, and keeps what they allow",
                )
                .with(mailbox::APPROVALS),
                leaf(ActorKind::Providers, "providers", "listens for processes that provide tools over NATS"),
                template(
                    ActorKind::Mcp,
                    "mcp",
                    Instances::Server,
                    "keeps the connection to one tool server: retries, breaker, its list of tools",
                )
                .with(mailbox::MCP),
            ],
            ..leaf(
                ActorKind::Tools,
                "tools",
                "starts an actor for each tool server: configured ones, and processes that announce themselves",
            )
            .with(mailbox::TOOLS)
        },
        leaf(ActorKind::LlmDispatcher, "llm_dispatcher", "model permits, breakers, the order of fallbacks")
            .with(mailbox::LLM_DISPATCHER),
        Row {
            intensity: BRANCH,
            handles_within: BRANCH_HANDLES_WITHIN,
            stop_within: BRANCH_STOPS,
            children: &[Row {
                restart: Restart::Temporary,
                ..template(
                    ActorKind::Conversation,
                    "conversation",
                    Instances::Place,
                    "a lane for each user: one turn at a time in a lane, lanes side by side",
                )
                .with(mailbox::CONVERSATION)
            }],
            ..leaf(
                ActorKind::Conversations,
                "conversations",
                "routes a turn to its conversation; an idle one asks to be forgotten",
            )
            .with(mailbox::CONVERSATIONS)
        },
        leaf(ActorKind::PresenceScheduler, "presence_scheduler", "how the bot is shown: hours, days, a line of status")
            .with(mailbox::SIGNAL),
        leaf(
            ActorKind::Commands,
            "commands",
            "what members run beside talking: a task for each, answered to its caller alone",
        )
        .with(mailbox::COMMANDS),
        leaf(ActorKind::Reporter, "reporter", "posts what was used, once in each interval"),
        leaf(ActorKind::Timers, "timers", "asks what is to be asked at certain times"),
        leaf(
            ActorKind::ConfigWatcher,
            "config_watcher",
            "reads changed files again, and puts them in force when they are right",
        )
        .with(mailbox::SIGNAL),
        leaf(ActorKind::Gateway, "gateway", "the one way in: triage, permit, journal").with(mailbox::GATEWAY),
        template(
            ActorKind::Source,
            "source",
            Instances::Door,
            "keeps the connection of a door whose platform needs no more than one",
        ),
        Row {
            intensity: BRANCH,
            handles_within: BRANCH_HANDLES_WITHIN,
            stop_within: BRANCH_STOPS,
            children: &[
                leaf(
                    ActorKind::IdentifyQueue,
                    "identify_queue",
                    "asks Discord for its advice; lets shards identify within max_concurrency and the daily budget",
                )
                .with(mailbox::IDENTIFY_QUEUE),
                template(
                    ActorKind::Shard,
                    "shard",
                    Instances::Number,
                    "owns one gateway connection: resume, backoff, stored session, catch-up",
                ),
            ],
            ..leaf(ActorKind::Discord, "discord", "starts as many shards as configured or advised")
                .with(mailbox::DISCORD)
        },
    ],
};

impl Row {
    /// The same row with this mailbox.
    const fn with(self, mailbox: Mailbox) -> Self {
        Self { mailbox, ..self }
    }

    /// The row of a kind below (or at) this one.
    #[must_use]
    pub fn find(&'static self, kind: ActorKind) -> Option<&'static Row> {
        if self.kind == kind {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(kind))
    }

    /// The row of a kind below (or at) this one, and the path of what supervises its actors; empty for the root.
    #[must_use]
    pub fn locate(&'static self, kind: ActorKind) -> Option<(&'static Row, String)> {
        if self.kind == kind {
            return Some((self, String::new()));
        }
        let (row, above) = self.children.iter().find_map(|child| child.locate(kind))?;
        let name = self.name;
        Some((row, if above.is_empty() { name.to_string() } else { format!("{name}/{above}") }))
    }

    /// The path of one actor of this row below the path of its supervisor.
    #[must_use]
    pub fn path(&self, above: &str, scope: &Scope) -> String {
        let name = match (self.name, scope) {
            (Name::Fixed(name), _) => name.to_owned(),
            (Name::Template { prefix, .. }, Scope::One) => prefix.to_owned(),
            (Name::Template { prefix, .. }, Scope::Door(door)) => format!("{prefix}:{door}"),
            (Name::Template { prefix, .. }, Scope::Place(place)) => format!("{prefix}:{place}"),
            (Name::Template { prefix, .. }, Scope::Server(server)) => format!("{prefix}:{server}"),
            (Name::Template { prefix, .. }, Scope::Number(number)) => format!("{prefix}:{number}"),
        };
        if above.is_empty() { name } else { format!("{above}/{name}") }
    }

    /// What metrics and health lines call an actor of this row: its path, or, because nothing bounds how many places there are,
    /// what all actors of places have in common.
    #[must_use]
    pub fn label(&self, above: &str, scope: &Scope) -> String {
        match scope {
            Scope::Place(_) => self.path(above, &Scope::One),
            Scope::One | Scope::Door(_) | Scope::Server(_) | Scope::Number(_) => self.path(above, scope),
        }
    }

    pub(super) fn policy(&self) -> String {
        let own = self.restart.as_str();
        if self.children.is_empty() {
            return own.to_owned();
        }
        let Intensity { restarts, period } = self.intensity;
        format!("{own}; its children one_for_one, {restarts} each in {} s", period.as_secs())
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
    text.push_str("```\n\n| actor | restart | backoff | its children | mailbox | handles within | stops within |\n|---|---|---|---|---|---|---|\n");
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
        format!("one_for_one, {restarts} counted restarts of one in {} s, then it fails itself", period.as_secs())
    };
    let backoff = match row.restart {
        Restart::Temporary => "none".to_owned(),
        Restart::Permanent | Restart::Transient => {
            format!("{} ms to {} s, full jitter", row.backoff.base.as_millis(), row.backoff.cap.as_secs())
        }
    };
    let (stop, restart) = (row.stop_within.as_secs(), row.restart.as_str());
    let handles = format!("{} s, else it is {}", row.handles_within.as_secs(), row.on_hang.as_str());
    let (name, mailbox) = (row.name, row.mailbox);
    let _ = writeln!(text, "| `{name}` | {restart} | {backoff} | {children} | {mailbox} | {handles} | {stop} s |");
    for child in row.children {
        table(child, text);
    }
}

#[cfg(test)]
mod tests;
