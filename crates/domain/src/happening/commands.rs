//! Events of slash commands.

use std::time::Duration;

use crate::command::CommandKind;

/// A change of a command, or of the list of commands.
#[derive(Debug, Clone, Copy)]
pub enum CommandChange<'a> {
    /// A command ended.
    Ended {
        /// The command; `None` if no command has this name.
        command: Option<CommandKind>,
        /// The outcome.
        outcome: CommandOutcome,
        /// The time since its start.
        took: Duration,
    },
    /// The task of a command panicked. Its end follows.
    Panicked {
        /// The command; `None` if no command has this name.
        command: Option<CommandKind>,
        /// The text of the panic.
        panic: &'a str,
    },
    /// The platform did not accept that a command or a click is being answered, for this reason.
    Unclaimed(&'a str),
    /// The answer to a command or a click cannot be posted, for this reason.
    Unanswered(&'a str),
    /// The platform has the list of commands.
    Offered {
        /// The number of commands.
        commands: usize,
        /// True if the platform had a different list before.
        changed: bool,
    },
    /// The platform did not accept the list of commands.
    NotOffered {
        /// The error.
        error: &'a str,
        /// The time until the next attempt.
        again_in: Duration,
    },
}

/// The outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It was answered.
    Done,
    /// It was answered with a refusal.
    Refused,
    /// No command has this name, or its feature is not available.
    Unknown,
    /// It exceeded its timeout, and its caller was told so.
    Slow,
    /// The platform did not accept that it is being answered, or another process answers it.
    Unclaimed,
    /// Its answer could not be posted.
    Unanswered,
    /// Its task panicked.
    Panicked,
}

impl CommandOutcome {
    /// Returns the label in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Slow => "slow",
            Self::Unclaimed => "unclaimed",
            Self::Unanswered => "unanswered",
            Self::Panicked => "panicked",
        }
    }
}
