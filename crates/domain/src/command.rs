//! Commands: what members may run beside talking, who may run which, and what a door is told of them.

pub mod kept;

pub mod overview;

pub mod preferences;

pub mod typed;

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ids::{MessageId, Person, Place, Timestamp};
use super::locale::{InEach, Locale, in_each};
use super::notice::commands as words;
use super::tool::server::ServerStatus;

/// The most choices that are offered while somebody types.
pub const CHOICES_MAX: usize = 25;

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

/// Who ran a command, as the platform vouches for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Their id.
    pub person: Person,
    /// The name others see.
    pub name: String,
    /// Ids of their roles in the community.
    pub roles: Vec<String>,
    /// The language of their own client, such as `en-US`.
    pub locale: Option<String>,
    /// Their door vouches that they operate the bot.
    pub operator: bool,
}

impl Caller {
    /// The language in which they are told what came of it.
    #[must_use]
    pub fn locale(&self) -> Locale {
        Locale::of(self.locale.as_deref())
    }
}

/// How one command is answered: the platform gives this once, for a quarter of an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The platform's id of what happened.
    pub id: MessageId,
    /// Our application, as the platform calls it.
    pub application: String,
    /// Who knows it may answer in our name.
    pub token: CallbackToken,
}

/// A secret: it never shows in logs or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackToken(String);

impl CallbackToken {
    /// A token as the platform gave it.
    #[must_use]
    pub const fn new(token: String) -> Self {
        Self(token)
    }

    /// The token itself, for the request that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CallbackToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackToken(..)")
    }
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

/// Who operates the bot. What an operator sees and does concerns every community, so no rank in a single one makes anybody an
/// operator: a super role counts because its id exists in one community alone.
#[derive(Debug, Clone, Copy)]
pub struct Operators<'a> {
    /// Ids of the roles whose holders are operators.
    pub super_roles: &'a HashSet<String>,
    /// Ids of accounts that are operators without a role, at the same door.
    pub accounts: &'a HashSet<String>,
}

impl Operators<'_> {
    /// Whether somebody is one.
    #[must_use]
    pub fn include(self, caller: &Caller) -> bool {
        caller.operator || self.include_one(&caller.person, &caller.roles)
    }

    /// Whether a person with these roles is one.
    #[must_use]
    pub fn include_one(self, person: &Person, roles: &[String]) -> bool {
        self.accounts.contains(person.id.as_str()) || roles.iter().any(|role| self.super_roles.contains(role))
    }

    /// Whether this caller may run this command.
    #[must_use]
    pub fn may_run(self, kind: CommandKind, caller: &Caller) -> bool {
        match kind.access() {
            Access::Everybody => true,
            Access::Operators => self.include(caller),
        }
    }
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

    /// What can be given with it.
    pub fn option(self) -> Option<OptionSpec> {
        match self {
            Self::Model => {
                Some(OptionSpec { name: ROW, descriptions: in_each(words::row), kind: OptionKind::Suggested })
            }
            Self::Usage => {
                Some(OptionSpec { name: USER, descriptions: in_each(words::user), kind: OptionKind::Member })
            }
            Self::Approvals => {
                Some(OptionSpec { name: WITHDRAW, descriptions: in_each(words::withdraw), kind: OptionKind::Suggested })
            }
            Self::Remember => {
                Some(OptionSpec { name: REMEMBERED, descriptions: in_each(words::remember), kind: OptionKind::Text })
            }
            Self::Memories => {
                Some(OptionSpec { name: FACT, descriptions: in_each(words::fact), kind: OptionKind::Suggested })
            }
            Self::Tools => {
                Some(OptionSpec { name: CATEGORY, descriptions: in_each(words::category), kind: OptionKind::Text })
            }
            Self::Help
            | Self::New
            | Self::Forget
            | Self::Export
            | Self::Status
            | Self::RefreshTools
            | Self::RefreshStatus => None,
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

/// A command as a door offers it to its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it does, in each language.
    pub descriptions: InEach,
    /// What can be given with it; never needed.
    pub option: Option<OptionSpec>,
    /// Only administrators are shown it, until they decide otherwise.
    pub administrators: bool,
    /// It is offered in direct conversations too.
    pub direct: bool,
}

/// Something that can be given with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// What it means, in each language.
    pub descriptions: InEach,
    /// What it can be.
    pub kind: OptionKind,
}

/// What an option can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// A member of the community.
    Member,
    /// A text, with choices offered while it is typed.
    Suggested,
    /// A text.
    Text,
}

/// What decides which commands a door offers, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// There are operators.
    pub operators: bool,
    /// Some of them are known by a role.
    pub super_roles: bool,
    /// What there is to be served.
    pub served: Served,
    /// Direct conversations are answered.
    pub direct: bool,
}

/// What doors offer. Where super roles exist the commands of operators are shown to everybody, because no platform knows who
/// they are; who may run one is decided when it is run.
#[must_use]
pub fn specs(offer: Offer) -> Vec<Spec> {
    let spec = |kind: CommandKind| Spec {
        name: kind.name(),
        descriptions: in_each(|locale| words::description(kind, locale)),
        option: kind.option(),
        administrators: kind.access() == Access::Operators && !offer.super_roles,
        direct: offer.direct,
    };
    let is_offered =
        |kind: &CommandKind| kind.is_served(offer.served) && (kind.access() == Access::Everybody || offer.operators);
    CommandKind::ALL.into_iter().filter(is_offered).map(spec).collect()
}

/// What can be chosen for an option: what is shown and what is then given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is shown.
    pub name: String,
    /// What is given.
    pub value: String,
}

/// Tools as far as they are connected; what the commands about tools answer from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tooling {
    /// Tool servers and how each is, by name.
    pub servers: Vec<ToolServer>,
}

/// A tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: ServerStatus,
    /// How far a start under way is, such as "14 s"; none when none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The names of its tools in calls.
    pub tools: Vec<String>,
    /// Names of tools that are not what they were, and are held back until an operator accepts them.
    pub changed: Vec<String>,
    /// What the operator says it is for.
    #[serde(default)]
    pub about: Option<String>,
}

impl Tooling {
    /// The server of this name; one that is not known begins.
    pub fn server(&mut self, name: &str) -> &mut ToolServer {
        let at = self.servers.binary_search_by(|known| known.name.as_str().cmp(name));
        let at = at.unwrap_or_else(|at| {
            let begins = ToolServer {
                name: name.to_owned(),
                state: ServerStatus::Starting,
                progress: None,
                tools: Vec::new(),
                changed: Vec::new(),
                about: None,
            };
            self.servers.insert(at, begins);
            at
        });
        &mut self.servers[at]
    }
}

#[cfg(test)]
mod tests;
