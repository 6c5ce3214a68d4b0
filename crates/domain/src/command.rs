//! Commands: what members may run beside talking, who may run which, and what a door is told of them.

pub mod preferences;

pub mod typed;

pub use super::caller::{Callback, CallbackToken, Caller, Operators};
use super::ids::{Person, Place, Timestamp};

/// A command that somebody ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// How it is answered; its id is the key for dedupe.
    pub callback: Callback,
    /// Its name as the platform tells it.
    pub name: String,
    /// What was given with it, by the names of the options.
    pub options: Vec<(String, String)>,
    /// The members that options name, with the ids of their roles.
    pub named: Vec<(Person, Vec<String>)>,
    /// Who ran it.
    pub caller: Caller,
    /// Where.
    pub place: Place,
    /// The place above that one.
    pub parent: Option<Place>,
    /// The community; none in a direct conversation.
    pub guild: Option<String>,
    /// When, by the platform's clock.
    pub at: Timestamp,
}

impl Command {
    /// What was given for an option.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim())
    }
}

/// Somebody types a command and wants to see what an option can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typing {
    /// How it is answered.
    pub callback: Callback,
    /// The command.
    pub name: String,
    /// The option.
    pub option: String,
    /// What was typed so far.
    pub typed: String,
    /// Who types.
    pub caller: Caller,
}

/// The commands that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Lists the commands and what the bot does.
    Help,
    /// Begins the conversation anew.
    New,
    /// Shows or chooses the model.
    Model,
    /// Shows the use of limits.
    Usage,
    /// Erases what is kept about the member.
    Forget,
    /// Sends what is kept about the member as a file.
    Export,
    /// Keeps a fact about the member.
    Remember,
    /// Lists the facts about the member.
    Memories,
    /// Lists the tools that the member may use.
    Tools,
    /// Shows the health of the bot.
    Status,
    /// Lists the calls that wait for a decision.
    Approvals,
    /// Reads the lists of the tool servers again.
    RefreshTools,
    /// Chooses a new presence.
    RefreshStatus,
}

/// Who may run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, about themselves.
    Everybody,
    /// See [`Operators`].
    Operators,
}

/// What has to be there for a command to be of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing but the bot.
    Nothing,
    /// A tool of the program or a tool server.
    Tools,
    /// A call that a person may have to approve.
    Questions,
}

/// What there is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// There are tools, or servers that may have some.
    pub tools: bool,
    /// There may be calls that a person has to approve.
    pub questions: bool,
}

impl CommandKind {
    /// All of them, in the order in which help names them.
    pub const ALL: [Self; 13] = [
        Self::Help,
        Self::New,
        Self::Model,
        Self::Usage,
        Self::Forget,
        Self::Export,
        Self::Remember,
        Self::Memories,
        Self::Tools,
        Self::Status,
        Self::Approvals,
        Self::RefreshTools,
        Self::RefreshStatus,
    ];

    /// The command of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name, which is also a label in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::New => "new",
            Self::Model => "model",
            Self::Usage => "usage",
            Self::Forget => "forget",
            Self::Export => "export",
            Self::Remember => "remember",
            Self::Memories => "memories",
            Self::Tools => "tools",
            Self::Status => "status",
            Self::Approvals => "approvals",
            Self::RefreshTools => "refresh_tools",
            Self::RefreshStatus => "refresh_status",
        }
    }

    /// Who may run it.
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Help
            | Self::New
            | Self::Model
            | Self::Usage
            | Self::Forget
            | Self::Export
            | Self::Remember
            | Self::Memories
            | Self::Tools
            | Self::Approvals => Access::Everybody,
            Self::Status | Self::RefreshTools | Self::RefreshStatus => Access::Operators,
        }
    }

    /// Whether this caller may run it.
    #[must_use]
    pub fn may_be_run_by(self, caller: &Caller, operators: Operators<'_>) -> bool {
        match self.access() {
            Access::Everybody => true,
            Access::Operators => operators.include(caller),
        }
    }

    /// What it needs to be offered. A command that lacks it is neither offered nor known.
    const fn needs(self) -> Needs {
        match self {
            Self::Tools | Self::RefreshTools => Needs::Tools,
            Self::Approvals => Needs::Questions,
            Self::Help
            | Self::New
            | Self::Model
            | Self::Usage
            | Self::Forget
            | Self::Export
            | Self::Remember
            | Self::Memories
            | Self::Status
            | Self::RefreshStatus => Needs::Nothing,
        }
    }

    /// Whether it is of use.
    #[must_use]
    pub fn is_served(self, served: Served) -> bool {
        match self.needs() {
            Needs::Nothing => true,
            Needs::Tools => served.tools,
            Needs::Questions => served.questions,
        }
    }
}

/// The option of `/model`.
pub const ROW: &str = "row";
/// The option of `/usage`.
pub const USER: &str = "user";
/// The option of `/approvals`.
pub const WITHDRAW: &str = "withdraw";
/// The option of `/remember`.
pub const REMEMBERED: &str = "fact";
/// The option of `/tools`.
pub const CATEGORY: &str = "category";
/// The option of `/memories`.
pub const FACT: &str = "forget";

#[cfg(test)]
mod tests;
