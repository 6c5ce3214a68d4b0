//! The bound of a mailbox: its capacity for messages of other actors, and its overflow policy.
//!
//! Each constant documents the bound of its senders. A mailbox on the path of a turn has room for every turn that may
//! be open by default (`turn.open`, 2,000), multiplied where a turn sends several messages. It fills up only if its
//! actor is stuck, or if the operator raises the number of open turns. Refused messages come back: the sender retries,
//! or the receipt returns the event.
//!
//! An actor's own events (timers, ends of its tasks) are never refused: the timers and tasks that it started bound
//! them.

use std::fmt;

/// The bound of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mailbox {
    /// The most messages of other actors, including the message in progress.
    pub capacity: usize,
    /// The overflow policy.
    pub when_full: WhenFull,
}

/// The overflow policy of a mailbox. Each overflow is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The sender gets the message back and decides: retry later, tell the member, or drop the receipt inside it.
    Refuse,
    /// The message is dropped, because a queued message already asks for the same.
    Drop,
}

impl WhenFull {
    /// Returns the word for the table of the tree.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refused",
            Self::Drop => "dropped",
        }
    }
}

impl Mailbox {
    /// The mailbox of an actor without messages: its message type has no values.
    pub const NONE: Self = Self::refusing(0);

    const fn refusing(capacity: usize) -> Self {
        Self { capacity, when_full: WhenFull::Refuse }
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.capacity {
            0 => f.write_str("none"),
            capacity => write!(f, "{capacity}, then {}", self.when_full.as_str()),
        }
    }
}

/// One message in progress and one queued. Signals carry no data, so the queued one stands for all later ones.
pub(super) const SIGNAL: Mailbox = Mailbox { capacity: 2, when_full: WhenFull::Drop };

/// An open turn sends about four messages in sequence (accepted, acts, answered, delivered) and holds a permit of
/// `turn.open` until it is closed. Recovered turns hold no permit, but the journal itself offers them.
pub(super) const JOURNAL: Mailbox = Mailbox::refusing(20_000);

/// An open turn sends typing, a draft with repeated updates, the end of both, and its answer. Notices (`NOTICES_MAX`,
/// 1,000), requests of commands and reads of shards are added to these.
pub(super) const OUTBOX: Mailbox = Mailbox::refusing(10_000);

/// An open turn requests admission and is settled. If the journal recovers more turns than this, it offers the rest at
/// its next sweep.
pub(super) const RATE_LIMITER: Mailbox = Mailbox::refusing(10_000);

/// The sweeper keeps as many messages while it loads its records (`EARLY_MAX`).
pub(super) const RESTRICTION_SWEEPER: Mailbox = Mailbox::refusing(1_000);

/// Files change and providers announce themselves at most every few seconds, and a handler that hangs is killed after
/// ten seconds.
pub(super) const TOOLS: Mailbox = Mailbox::refusing(100);

/// Each tool server reports its list when it connects and when the list changes. There are at most 200 providers plus
/// the configured servers.
pub(super) const TOOL_CACHE: Mailbox = Mailbox::refusing(1_000);

/// Requests and ends of the approvals that may be open at once (`OPEN_MAX`), and button presses of members.
pub(super) const APPROVALS: Mailbox = Mailbox::refusing(1_000);

/// Each call of a server holds one of `CALLS_MAX` (16) places; `tools` adds signals.
pub(super) const MCP: Mailbox = Mailbox::refusing(64);

/// An open turn requests one permit at a time and reports one call.
pub(super) const LLM_DISPATCHER: Mailbox = Mailbox::refusing(10_000);

/// An open turn is offered once at a time, and may be cancelled.
pub(super) const CONVERSATIONS: Mailbox = Mailbox::refusing(10_000);

/// All turns that may be open by default, in one place.
pub(super) const CONVERSATION: Mailbox = Mailbox::refusing(2_000);

/// A turn of a long conversation sends one message at its end. A refused one is repeated by the next turn.
pub(super) const SUMMARIES: Mailbox = Mailbox::refusing(1_000);

/// 64 commands run at once and more are queued. The shard hands refused commands on again.
pub(super) const COMMANDS: Mailbox = Mailbox::refusing(1_000);

/// As many events as one shard holds unsettled (`UNSETTLED_MAX`). The shard hands refused events on again.
pub(super) const GATEWAY: Mailbox = Mailbox::refusing(10_000);

/// The app announces one change of ranges at a time.
pub(super) const ROOT: Mailbox = Mailbox::refusing(4);

/// The identify queue reports the number of shards once per start, and the app one change of ranges at a time.
pub(super) const DISCORD: Mailbox = Mailbox::refusing(16);

/// Each shard sends one request and waits. The largest bots have some thousand shards over all processes.
pub(super) const IDENTIFY_QUEUE: Mailbox = Mailbox::refusing(1_000);

/// Each command about voice channels holds one of the places of commands (64); calls report their ends.
pub(super) const VOICES: Mailbox = Mailbox::refusing(100);
