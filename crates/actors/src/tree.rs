//! The supervision tree as data: the actors, their supervisors, and the reaction to each failure. Start reading here.
//!
//! Start order is the order of the rows; stop order is the reverse. A row is one actor or a template: one actor per
//! door, place, server or number. Paths, handles, metric labels and the recovery after a failure are derived from the
//! rows. `wiring.rs` turns each row into running actors.

mod drawing;
mod duties;
mod mailbox;

use std::fmt;
use std::time::Duration;

use domain::ids::{Door, Place};
use domain::restart::{Backoff, Intensity, Restart};
use domain::tool::ServerName;

pub use self::drawing::{markdown, text};
pub use self::duties::{HeldTurns, Runs};
pub use self::mailbox::{Mailbox, WhenFull};

/// The path of the root.
pub const ROOT: &str = "staffai";

/// One actor, or one kind of actor, of the tree.
pub struct TreeRow {
    /// The kind, read by the wiring.
    pub kind: ActorKind,
    /// Its name among its siblings.
    pub name: Name,
    /// Its purpose in one line.
    pub role: &'static str,
    /// The restart policy.
    pub restart: Restart,
    /// The delay before a restart.
    pub backoff: Backoff,
    /// The most failures of each of its children in a period before this supervisor gives up itself. Failures caused
    /// by external input do not count.
    pub intensity: Intensity,
    /// The longest run of one handler. A handler waits for nothing but the stop of a child, so a longer run means that
    /// it hangs.
    pub handler_timeout: Duration,
    /// The supervisor's reaction to a handler that hangs.
    pub on_hang: OnHang,
    /// The longest orderly stop, after which the actor is killed.
    pub stop_timeout: Duration,
    /// The capacity for messages of other actors, and the overflow policy.
    pub mailbox: Mailbox,
    /// The processes that run its actors, if the bot's work is divided.
    pub runs: Runs,
    /// The turns that its actors may hold, which the journal offers again after a failure; `None` if they hold no turn.
    pub holds: Option<HeldTurns>,
    /// The supervised rows, in start order.
    pub children: &'static [TreeRow],
}

/// A supervisor's reaction to a child whose handler runs longer than its row allows. The event is always logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHang {
    /// No further reaction.
    Log,
    /// Kills the child, counts a failure, and restarts it.
    Restart,
}

impl OnHang {
    /// Returns the word for logs and for the table of the tree.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "logged",
            Self::Restart => "killed and restarted",
        }
    }
}

/// The naming of a row's actors among their siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// One actor with this name.
    Fixed(&'static str),
    /// One actor per instance, named `prefix:id`.
    Template {
        /// The text before the colon.
        prefix: &'static str,
        /// The kind of instance.
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

/// The kinds of instances of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instances {
    /// A door of this process. Doors are known before the tree starts, and their actors start with it.
    Door,
    /// A place. Its actor starts and stops while the program runs.
    Place,
    /// A community. Its actor starts and stops while the program runs.
    Community,
    /// A tool server. Its actor starts and stops while the program runs.
    Server,
    /// A number, counted from zero. The count is known only while the program runs.
    Number,
}

impl Instances {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Door => "door",
            Self::Place => "channel",
            Self::Community => "guild",
            Self::Server => "server",
            Self::Number => "n",
        }
    }
}

/// The identity of an actor within its row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The only actor of the row.
    One,
    /// The actor of a door.
    Door(Door),
    /// The actor of a place.
    Place(Place),
    /// The actor of a community.
    Community(String),
    /// The actor of a tool server.
    Server(ServerName),
    /// The actor with this number.
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
    Summaries,
    PresenceScheduler,
    Commands,
    Reporter,
    Timers,
    ConfigWatcher,
    Gateway,
    Source,
    Slack,
    SlackSocket,
    Discord,
    IdentifyQueue,
    Shard,
    Voices,
    Voice,
}

/// Restarts within 20 ms after a first failure, then by exponential backoff with full jitter up to five seconds.
const QUICK: Backoff = Backoff { base: Duration::from_millis(20), cap: Duration::from_secs(5) };

/// Branches tolerate more failures than the root, so that failures stay local and intensities do not multiply.
const BRANCH: Intensity = Intensity { restarts: 10, period: Duration::from_secs(60) };

/// A supervisor stops its children first, so its limit is longer than that of any child.
const BRANCH_STOPS: Duration = Duration::from_secs(5);

/// The longest run of a handler. The longest handlers parse stored records or a platform's response in memory;
/// none waits for I/O.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(5);

/// A handler of a branch may wait for the stop of one child, and then for its kill.
const BRANCH_HANDLER_TIMEOUT: Duration = Duration::from_secs(10);

/// A leaf has no children, so it counts no failures.
const LEAF: Intensity = Intensity { restarts: 0, period: Duration::from_secs(60) };

const fn leaf(kind: ActorKind, name: &'static str, role: &'static str) -> TreeRow {
    let (name, stop_timeout) = (Name::Fixed(name), Duration::from_secs(2));
    TreeRow {
        kind,
        name,
        role,
        restart: Restart::Permanent,
        backoff: QUICK,
        intensity: LEAF,
        handler_timeout: HANDLER_TIMEOUT,
        on_hang: OnHang::Restart,
        stop_timeout,
        mailbox: Mailbox::NONE,
        runs: Runs::InEachRange,
        holds: None,
        children: &[],
    }
}

const fn template(kind: ActorKind, prefix: &'static str, of: Instances, role: &'static str) -> TreeRow {
    TreeRow { name: Name::Template { prefix, of }, ..leaf(kind, prefix, role) }
}

/// The supervision tree.
pub static TREE: TreeRow = TreeRow {
    kind: ActorKind::Root,
    name: Name::Fixed(ROOT),
    role: "the root supervisor; ends the process with exit 70 if a branch keeps failing",
    restart: Restart::Permanent,
    backoff: QUICK,
    intensity: Intensity { restarts: 5, period: Duration::from_secs(60) },
    handler_timeout: BRANCH_HANDLER_TIMEOUT,
    // The root has no supervisor.
    on_hang: OnHang::Log,
    stop_timeout: Duration::from_secs(10),
    mailbox: mailbox::ROOT,
    runs: Runs::InEachRange,
    holds: None,
    children: &[
        leaf(ActorKind::Ops, "ops", "serves health, metrics and the live tree; logs tree.health every minute"),
        template(
            ActorKind::Listener,
            "listener",
            Instances::Number,
            "serves the same at an additional address, such as the port of Ollama clients",
        ),
        leaf(ActorKind::Journal, "journal", "the write-ahead log of turns; owns each turn until its answer is posted")
            .with(mailbox::JOURNAL),
        template(
            ActorKind::Outbox,
            "outbox",
            Instances::Door,
            "sends all posts of a door: order per channel, budgets, nonces, retries, typing",
        )
        .with(mailbox::OUTBOX)
        .holding(HeldTurns::Answered),
        leaf(
            ActorKind::RateLimiter,
            "rate_limiter",
            "reserves and settles the tokens and messages of turns; refuses turns over a limit",
        )
        .with(mailbox::RATE_LIMITER)
        .holding(HeldTurns::Unadmitted),
        leaf(
            ActorKind::RestrictionSweeper,
            "restriction_sweeper",
            "gives members the restricted role, and removes it on time",
        )
        .with(mailbox::RESTRICTION_SWEEPER),
        TreeRow {
            intensity: BRANCH,
            handler_timeout: BRANCH_HANDLER_TIMEOUT,
            stop_timeout: BRANCH_STOPS,
            children: &[
                leaf(ActorKind::ToolCache, "tool_cache", "builds the catalogue of all tools").with(mailbox::TOOL_CACHE),
                leaf(
                    ActorKind::Approvals,
                    "approvals",
                    "requests approvals of tool calls; stores decisions and allowances",
                )
                .with(mailbox::APPROVALS),
                leaf(
                    ActorKind::Providers,
                    "providers",
                    "reads announcements of processes that provide tools over NATS",
                ),
                template(
                    ActorKind::Mcp,
                    "mcp",
                    Instances::Server,
                    "owns the connection to one tool server: retries, breaker, tool list",
                )
                .with(mailbox::MCP),
            ],
            ..leaf(ActorKind::Tools, "tools", "starts an actor for each tool server, configured or announced over NATS")
                .with(mailbox::TOOLS)
        },
        leaf(
            ActorKind::LlmDispatcher,
            "llm_dispatcher",
            "grants model permits; holds circuit breakers and the fallback order",
        )
        .with(mailbox::LLM_DISPATCHER),
        TreeRow {
            intensity: BRANCH,
            handler_timeout: BRANCH_HANDLER_TIMEOUT,
            stop_timeout: BRANCH_STOPS,
            children: &[TreeRow {
                restart: Restart::Temporary,
                ..template(
                    ActorKind::Conversation,
                    "conversation",
                    Instances::Place,
                    "one lane per member: one turn at a time in a lane, lanes run concurrently",
                )
                .with(mailbox::CONVERSATION)
                .holding(HeldTurns::Unanswered)
            }],
            ..leaf(ActorKind::Conversations, "conversations", "routes turns to conversations; stops idle ones")
                .with(mailbox::CONVERSATIONS)
                .holding(HeldTurns::Unanswered)
        },
        leaf(ActorKind::Summaries, "summaries", "summarises older exchanges of conversations, within a daily budget")
            .with(mailbox::SUMMARIES),
        leaf(
            ActorKind::PresenceScheduler,
            "presence_scheduler",
            "decides the bot's presence: active hours and status line",
        )
        .with(mailbox::SIGNAL),
        leaf(ActorKind::Commands, "commands", "runs slash commands, one task each; only the caller sees the answer")
            .with(mailbox::COMMANDS),
        leaf(ActorKind::Reporter, "reporter", "posts usage reports, and notices about tools that fail for long")
            .in_first_range(),
        leaf(ActorKind::Timers, "timers", "starts the turns of due timers").in_first_range(),
        leaf(ActorKind::ConfigWatcher, "config_watcher", "reloads changed files if all of them are valid")
            .with(mailbox::SIGNAL),
        leaf(ActorKind::Gateway, "gateway", "accepts the events of all doors: triage, permit, journal")
            .with(mailbox::GATEWAY),
        template(ActorKind::Source, "source", Instances::Door, "owns the connection of a door that needs only one")
            .in_first_range(),
        TreeRow {
            intensity: BRANCH,
            handler_timeout: BRANCH_HANDLER_TIMEOUT,
            stop_timeout: BRANCH_STOPS,
            children: &[template(
                ActorKind::SlackSocket,
                "slack_socket",
                Instances::Number,
                "owns one Socket Mode connection: the next one opens before it closes",
            )],
            ..leaf(ActorKind::Slack, "slack", "supervises the connections to Slack, of which any may receive an event")
                .in_first_range()
        },
        TreeRow {
            intensity: BRANCH,
            handler_timeout: BRANCH_HANDLER_TIMEOUT,
            stop_timeout: BRANCH_STOPS,
            children: &[
                leaf(
                    ActorKind::IdentifyQueue,
                    "identify_queue",
                    "asks Discord for the shard count; limits identifies to max_concurrency and the daily budget",
                )
                .with(mailbox::IDENTIFY_QUEUE),
                template(
                    ActorKind::Shard,
                    "shard",
                    Instances::Number,
                    "owns one gateway connection: resume, backoff, stored session, catch-up",
                ),
            ],
            ..leaf(ActorKind::Discord, "discord", "starts the configured or recommended number of shards")
                .with(mailbox::DISCORD)
        },
        TreeRow {
            intensity: BRANCH,
            handler_timeout: BRANCH_HANDLER_TIMEOUT,
            stop_timeout: BRANCH_STOPS,
            children: &[template(
                ActorKind::Voice,
                "voice",
                Instances::Community,
                "owns the call in one voice channel: speaks answers, hears members who agreed, joins again",
            )],
            ..leaf(ActorKind::Voices, "voices", "joins and leaves voice channels; keeps who may be heard")
                .with(mailbox::VOICES)
        },
    ],
};

impl TreeRow {
    /// Returns the same row with this mailbox.
    const fn with(self, mailbox: Mailbox) -> Self {
        Self { mailbox, ..self }
    }

    /// Returns the same row, for the owner of the first range alone.
    const fn in_first_range(self) -> Self {
        Self { runs: Runs::InFirstRange, ..self }
    }

    /// Returns the same row with these turns.
    const fn holding(self, turns: HeldTurns) -> Self {
        Self { holds: Some(turns), ..self }
    }

    /// Returns the row of a kind at or below this row.
    #[must_use]
    pub fn find(&'static self, kind: ActorKind) -> Option<&'static TreeRow> {
        if self.kind == kind {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(kind))
    }

    /// Returns the row of a kind at or below this row, and the path of its supervisor (empty for the root).
    #[must_use]
    pub fn locate(&'static self, kind: ActorKind) -> Option<(&'static TreeRow, String)> {
        if self.kind == kind {
            return Some((self, String::new()));
        }
        let (row, above) = self.children.iter().find_map(|child| child.locate(kind))?;
        let name = self.name;
        Some((row, if above.is_empty() { name.to_string() } else { format!("{name}/{above}") }))
    }

    /// Returns the path of one actor of this row below the path of its supervisor.
    #[must_use]
    pub fn path(&self, above: &str, scope: &Scope) -> String {
        let name = match (self.name, scope) {
            (Name::Fixed(name), _) => name.to_owned(),
            (Name::Template { prefix, .. }, Scope::One) => prefix.to_owned(),
            (Name::Template { prefix, .. }, Scope::Door(door)) => format!("{prefix}:{door}"),
            (Name::Template { prefix, .. }, Scope::Place(place)) => format!("{prefix}:{place}"),
            (Name::Template { prefix, .. }, Scope::Community(guild)) => format!("{prefix}:{guild}"),
            (Name::Template { prefix, .. }, Scope::Server(server)) => format!("{prefix}:{server}"),
            (Name::Template { prefix, .. }, Scope::Number(number)) => format!("{prefix}:{number}"),
        };
        if above.is_empty() { name } else { format!("{above}/{name}") }
    }

    /// Returns the name of this row's actors in metrics and health lines: the path, or, for places and communities, one
    /// shared name because their number is unbounded.
    #[must_use]
    pub fn label(&self, above: &str, scope: &Scope) -> String {
        match scope {
            Scope::Place(_) | Scope::Community(_) => self.path(above, &Scope::One),
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

#[cfg(test)]
mod tests;
