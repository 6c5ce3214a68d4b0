//! The bound of a mailbox: the messages of other actors that may wait for an actor, and what becomes of one more.
//!
//! Each constant says what bounds its senders. A mailbox on the path of a turn has room for every turn that may be open by default
//! (`turn.open`, 2,000), several times where a turn sends several messages. So it is full only if its actor stands still, or if the
//! operator lets more turns be open. What is refused then comes again: its sender repeats it, or its receipt returns it.
//!
//! An actor's own events (timers, ends of its tasks) are not refused: they are bounded by the timers and tasks that it started.

use std::fmt;

/// The bound of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mailbox {
    /// The most messages of other actors in it, with the one that is being handled.
    pub capacity: usize,
    /// The fate of one more.
    pub when_full: WhenFull,
}

/// The fate of a message for which a mailbox has no room. It is counted in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The sender gets it back and decides: repeat it later, tell the member, or drop the receipt that travels with it.
    Refuse,
    /// It is dropped, because a message that waits already asks for the same.
    Drop,
}

impl WhenFull {
    /// The word in the tree's table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refused",
            Self::Drop => "dropped",
        }
    }
}

impl Mailbox {
    /// The mailbox of an actor that takes no messages: the type of its messages has no values.
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

/// One that is being handled and one that waits: the latter does all that further ones ask for, since they carry no data.
pub(super) const SIGNAL: Mailbox = Mailbox { capacity: 2, when_full: WhenFull::Drop };

/// An open turn sends about four messages one after the other (accepted, acts, answered, delivered) and holds a permit of `turn.open`
/// until it is closed. Turns of earlier lives hold none, but are handed out by the journal itself.
pub(super) const JOURNAL: Mailbox = Mailbox::refusing(20_000);

/// An open turn sends typing, a draft that is announced again while it grows, the end of both, and its answer. Notices
/// (`NOTICES_MAX`, 1,000), requests of commands and reads of shards come beside them.
pub(super) const OUTBOX: Mailbox = Mailbox::refusing(10_000);

/// An open turn asks to be let through and is settled. A journal that took up more turns than this offers the rest at its next sweep.
pub(super) const RATE_LIMITER: Mailbox = Mailbox::refusing(10_000);

/// As many messages as the sweeper keeps while its records are being read (`EARLY_MAX`).
pub(super) const RESTRICTION_SWEEPER: Mailbox = Mailbox::refusing(1_000);

/// Files change and providers announce themselves at most every few seconds, and a handler that hangs is killed after ten.
pub(super) const TOOLS: Mailbox = Mailbox::refusing(100);

/// Each tool server tells of its list when it is connected and when the list changes: at most 200 providers and the configured servers.
pub(super) const TOOL_CACHE: Mailbox = Mailbox::refusing(1_000);

/// Gates that may be open at once (`OPEN_MAX`), asked and ended, and what members press meanwhile.
pub(super) const APPROVALS: Mailbox = Mailbox::refusing(1_000);

/// Calls of one server hold a place each (`CALLS_MAX`, 16); `tools` sends signals beside them.
pub(super) const MCP: Mailbox = Mailbox::refusing(64);

/// An open turn waits for one permit at a time and reports one call.
pub(super) const LLM_DISPATCHER: Mailbox = Mailbox::refusing(10_000);

/// An open turn is offered, and may be cancelled.
pub(super) const CONVERSATIONS: Mailbox = Mailbox::refusing(10_000);

/// All turns that may be open by default, in one place.
pub(super) const CONVERSATION: Mailbox = Mailbox::refusing(2_000);

/// 64 commands run at once and further ones wait; what is refused, the shard hands on again.
pub(super) const COMMANDS: Mailbox = Mailbox::refusing(1_000);

/// As many events as one shard holds unsettled (`UNSETTLED_MAX`). What is refused, the shard hands on again.
pub(super) const GATEWAY: Mailbox = Mailbox::refusing(10_000);

/// The identify queue tells the number of shards once in each of its lives.
pub(super) const DISCORD: Mailbox = Mailbox::refusing(16);

/// Each shard asks once and waits; the largest bots have some thousand shards over all processes.
pub(super) const IDENTIFY_QUEUE: Mailbox = Mailbox::refusing(1_000);
