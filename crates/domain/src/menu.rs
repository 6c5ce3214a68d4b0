//! The menu of commands that doors offer to members, in each language.

use crate::command::{
    Access, CATEGORY, CHANGE, CODE, CommandKind, FACT, REMEMBERED, ROW, SWITCH, Served, USER, WITHDRAW,
};
use crate::locale::{InEach, in_each};
use crate::notice::commands as words;

/// Maximum number of completions offered while a member types.
pub const CHOICES_MAX: usize = 25;

/// A command as a door offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// The description, in each language.
    pub descriptions: InEach,
    /// Its option; never required.
    pub option: Option<OptionSpec>,
    /// True if only administrators see it, unless they change that.
    pub administrators: bool,
    /// True if it is also offered in direct conversations.
    pub direct: bool,
}

/// An option of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// The description, in each language.
    pub descriptions: InEach,
    /// The type of its value.
    pub kind: OptionKind,
}

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// A member of the community.
    Member,
    /// Text with completions.
    Suggested,
    /// Text.
    Text,
}

/// The settings that decide which commands a door offers, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// True if there are operators.
    pub operators: bool,
    /// True if some of them are known by a role.
    pub super_roles: bool,
    /// The available features.
    pub served: Served,
    /// True if direct conversations are answered.
    pub direct: bool,
}

/// Returns the commands that doors offer. If super roles exist, operator commands are visible to all members, because
/// the platform does not know the operators; permission is checked when a command runs.
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

/// A completion for an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The text shown.
    pub name: String,
    /// The value sent.
    pub value: String,
}

/// Returns the option of a command.
#[must_use]
pub fn option(kind: CommandKind) -> Option<OptionSpec> {
    match kind {
        CommandKind::Model => {
            Some(OptionSpec { name: ROW, descriptions: in_each(words::row), kind: OptionKind::Suggested })
        }
        CommandKind::Settings => {
            Some(OptionSpec { name: CHANGE, descriptions: in_each(words::change), kind: OptionKind::Suggested })
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
        CommandKind::Link => {
            Some(OptionSpec { name: CODE, descriptions: in_each(words::link), kind: OptionKind::Text })
        }
        CommandKind::Listen => {
            Some(OptionSpec { name: SWITCH, descriptions: in_each(words::switch), kind: OptionKind::Suggested })
        }
        CommandKind::Tools => {
            Some(OptionSpec { name: CATEGORY, descriptions: in_each(words::category), kind: OptionKind::Text })
        }
        CommandKind::Help
        | CommandKind::New
        | CommandKind::Forget
        | CommandKind::Export
        | CommandKind::Unlink
        | CommandKind::Join
        | CommandKind::Leave
        | CommandKind::Status
        | CommandKind::RefreshTools
        | CommandKind::RefreshStatus => None,
    }
}
