//! Commands: which exist, who may run them, and when a door offers them.

pub mod typed;

pub use super::caller::{Callback, CallbackToken, Caller, Operators};
use super::ids::{Person, Place, Timestamp};

/// A command that a member ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The means to answer; its id is the deduplication key.
    pub callback: Callback,
    /// The command's name at the platform.
    pub name: String,
    /// The options: name and value.
    pub options: Vec<(String, String)>,
    /// The members named in options, with the ids of their roles.
    pub named: Vec<(Person, Vec<String>)>,
    /// The member who ran it.
    pub caller: Caller,
    /// The place where it was run.
    pub place: Place,
    /// The parent of that place.
    pub parent: Option<Place>,
    /// The community; `None` in a direct conversation.
    pub guild: Option<String>,
    /// The time, by the platform's clock.
    pub at: Timestamp,
}

impl Command {
    /// Returns the value of an option, trimmed.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim())
    }
}

/// A request for completions while a member types a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typing {
    /// The means to answer.
    pub callback: Callback,
    /// The command.
    pub name: String,
    /// The option.
    pub option: String,
    /// The text typed so far.
    pub typed: String,
    /// The member who types.
    pub caller: Caller,
}

/// All commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Lists the commands and what the bot does.
    Help,
    /// Starts a new conversation.
    New,
    /// Shows or selects the model.
    Model,
    /// Shows or changes the member's settings.
    Settings,
    /// Shows the usage and its limits.
    Usage,
    /// Deletes the data stored about the member.
    Forget,
    /// Sends the data stored about the member as a file.
    Export,
    /// Stores a fact about the member.
    Remember,
    /// Lists the stored facts about the member.
    Memories,
    /// Shows a code that links another account, or takes such a code.
    Link,
    /// Removes the links of the account.
    Unlink,
    /// Has the bot join the voice channel of the member.
    Join,
    /// Has the bot leave its voice channel.
    Leave,
    /// Lets the bot hear the member in its voice channel, or no longer.
    Listen,
    /// Lists the tools that the member may use.
    Tools,
    /// Shows the health of the bot.
    Status,
    /// Lists the calls that require a decision.
    Approvals,
    /// Reloads the tool lists of the servers.
    RefreshTools,
    /// Chooses a new presence.
    RefreshStatus,
}

/// The members who may run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Every member, about themselves.
    Everybody,
    /// See [`Operators`].
    Operators,
}

/// The stored data of its caller that a command deletes: also the data that turns in progress save afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erases {
    /// None, or single records that no turn saves again.
    Nothing,
    /// The conversation in the place of the command.
    Conversation,
    /// All data about the caller.
    Everything,
}

/// The feature that a command requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// None.
    Nothing,
    /// A built-in tool or a tool server.
    Tools,
    /// Tool calls that may require approval.
    Questions,
    /// Links of accounts.
    Links,
    /// Voice channels.
    Voice,
}

/// The available features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the features are independent")]
pub struct Served {
    /// True if there are tools, or servers that may have some.
    pub tools: bool,
    /// True if tool calls may require approval.
    pub questions: bool,
    /// True if members may link their accounts, or have links.
    pub links: bool,
    /// True if the bot may join voice channels.
    pub voice: bool,
}

impl CommandKind {
    /// All commands, in the order of the help text.
    pub const ALL: [Self; 19] = [
        Self::Help,
        Self::New,
        Self::Model,
        Self::Settings,
        Self::Usage,
        Self::Forget,
        Self::Export,
        Self::Remember,
        Self::Memories,
        Self::Link,
        Self::Unlink,
        Self::Join,
        Self::Leave,
        Self::Listen,
        Self::Tools,
        Self::Status,
        Self::Approvals,
        Self::RefreshTools,
        Self::RefreshStatus,
    ];

    /// Returns the command with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name, which is also the label in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::New => "new",
            Self::Model => "model",
            Self::Settings => "settings",
            Self::Usage => "usage",
            Self::Forget => "forget",
            Self::Export => "export",
            Self::Remember => "remember",
            Self::Memories => "memories",
            Self::Link => "link",
            Self::Unlink => "unlink",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Listen => "listen",
            Self::Tools => "tools",
            Self::Status => "status",
            Self::Approvals => "approvals",
            Self::RefreshTools => "refresh_tools",
            Self::RefreshStatus => "refresh_status",
        }
    }

    /// Returns the label of a command in logs and metrics; `unknown` if no command has the name.
    #[must_use]
    pub fn label(kind: Option<Self>) -> &'static str {
        kind.map_or("unknown", Self::name)
    }

    /// Returns who may run it.
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Help
            | Self::New
            | Self::Model
            | Self::Settings
            | Self::Usage
            | Self::Forget
            | Self::Export
            | Self::Remember
            | Self::Memories
            | Self::Link
            | Self::Unlink
            | Self::Join
            | Self::Leave
            | Self::Listen
            | Self::Tools
            | Self::Approvals => Access::Everybody,
            Self::Status | Self::RefreshTools | Self::RefreshStatus => Access::Operators,
        }
    }

    /// True if this caller may run it.
    #[must_use]
    pub fn may_be_run_by(self, caller: &Caller, operators: Operators<'_>) -> bool {
        match self.access() {
            Access::Everybody => true,
            Access::Operators => operators.include(caller),
        }
    }

    /// Returns the stored data that it deletes.
    #[must_use]
    pub const fn erases(self) -> Erases {
        match self {
            Self::Forget => Erases::Everything,
            Self::New => Erases::Conversation,
            Self::Help
            | Self::Model
            | Self::Settings
            | Self::Usage
            | Self::Export
            | Self::Remember
            | Self::Memories
            | Self::Link
            | Self::Unlink
            | Self::Join
            | Self::Leave
            | Self::Listen
            | Self::Tools
            | Self::Status
            | Self::Approvals
            | Self::RefreshTools
            | Self::RefreshStatus => Erases::Nothing,
        }
    }

    /// Returns the feature that it requires. Without that feature, the command is neither offered nor accepted.
    const fn needs(self) -> Needs {
        match self {
            Self::Tools | Self::RefreshTools => Needs::Tools,
            Self::Approvals => Needs::Questions,
            Self::Link | Self::Unlink => Needs::Links,
            Self::Join | Self::Leave | Self::Listen => Needs::Voice,
            Self::Help
            | Self::New
            | Self::Model
            | Self::Settings
            | Self::Usage
            | Self::Forget
            | Self::Export
            | Self::Remember
            | Self::Memories
            | Self::Status
            | Self::RefreshStatus => Needs::Nothing,
        }
    }

    /// True if its required feature is available.
    #[must_use]
    pub fn is_served(self, served: Served) -> bool {
        match self.needs() {
            Needs::Nothing => true,
            Needs::Tools => served.tools,
            Needs::Questions => served.questions,
            Needs::Links => served.links,
            Needs::Voice => served.voice,
        }
    }
}

/// The option of `/model`.
pub const ROW: &str = "row";
/// The option of `/settings`.
pub const CHANGE: &str = "change";
/// The option of `/usage`.
pub const USER: &str = "user";
/// The option of `/approvals`.
pub const WITHDRAW: &str = "withdraw";
/// The option of `/remember`.
pub const REMEMBERED: &str = "fact";
/// The option of `/link`.
pub const CODE: &str = "code";
/// The option of `/listen`, and its values.
pub const SWITCH: &str = "switch";
/// See [`SWITCH`].
pub const SWITCH_VALUES: [&str; 2] = ["on", "off"];
/// The option of `/tools`.
pub const CATEGORY: &str = "category";
/// The option of `/memories`.
pub const FACT: &str = "forget";

#[cfg(test)]
mod tests;
