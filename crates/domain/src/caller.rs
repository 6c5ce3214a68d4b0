//! Callers: members who run a command or press a button, how they are answered, and who of them operates the bot.

use std::collections::HashSet;
use std::fmt;

use crate::ids::{MessageId, Person};
use crate::locale::Locale;

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
}
