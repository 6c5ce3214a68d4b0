//! The menu of commands: what doors offer to their members, in each language.

use crate::command::{Access, CATEGORY, CommandKind, FACT, REMEMBERED, ROW, Served, USER, WITHDRAW};
use crate::locale::{InEach, in_each};
use crate::notice::commands as words;

/// The most choices that are offered while somebody types.
pub const CHOICES_MAX: usize = 25;

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
        option: option(kind),
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

/// The option of a command.
#[must_use]
pub fn option(kind: CommandKind) -> Option<OptionSpec> {
    match kind {
        CommandKind::Model => {
            Some(OptionSpec { name: ROW, descriptions: in_each(words::row), kind: OptionKind::Suggested })
        }
        CommandKind::Usage => {
            Some(OptionSpec { name: USER, descriptions: in_each(words::user), kind: OptionKind::Member })
        }
        CommandKind::Approvals => {
            Some(OptionSpec { name: WITHDRAW, descriptions: in_each(words::withdraw), kind: OptionKind::Suggested })
        }
        CommandKind::Remember => {
            Some(OptionSpec { name: REMEMBERED, descriptions: in_each(words::remember), kind: OptionKind::Text })
        }
        CommandKind::Memories => {
            Some(OptionSpec { name: FACT, descriptions: in_each(words::fact), kind: OptionKind::Suggested })
        }
        CommandKind::Tools => {
            Some(OptionSpec { name: CATEGORY, descriptions: in_each(words::category), kind: OptionKind::Text })
        }
        CommandKind::Help
        | CommandKind::New
        | CommandKind::Forget
        | CommandKind::Export
        | CommandKind::Status
        | CommandKind::RefreshTools
        | CommandKind::RefreshStatus => None,
    }
}
