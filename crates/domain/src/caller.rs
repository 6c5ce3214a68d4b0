//! Callers: members who run a command or press a button, how they are answered, and which of them operate the bot.

use std::collections::HashSet;
use std::fmt;

use crate::ids::{MessageId, Person};
use crate::locale::Locale;

/// The member who ran a command, as authenticated by the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The member.
    pub person: Person,
    /// The display name.
    pub name: String,
    /// Ids of the member's roles in the community.
    pub roles: Vec<String>,
    /// The language of the member's client, such as `en-US`.
    pub locale: Option<String>,
    /// True if the door vouches that the member operates the bot.
    pub operator: bool,
}

impl Caller {
    /// Returns the language of answers to the caller.
    #[must_use]
    pub fn locale(&self) -> Locale {
        Locale::of(self.locale.as_deref())
    }
}

/// The means to answer one command. The platform issues it once; it is valid for 15 minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The platform's id of the event.
    pub id: MessageId,
    /// The bot's application id at the platform.
    pub application: String,
    /// Its holder may answer in the bot's name.
    pub token: CallbackToken,
}

/// A secret that never appears in logs or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackToken(String);

impl CallbackToken {
    /// Wraps a token from the platform.
    #[must_use]
    pub const fn new(token: String) -> Self {
        Self(token)
    }

    /// Returns the secret, for the request that needs it.
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

/// The operators of the bot. Operators see and affect every community, so rank in a single community does not make a
/// member an operator. A super role is safe because its id exists in one community only.
#[derive(Debug, Clone, Copy)]
pub struct Operators<'a> {
    /// Ids of the roles whose holders are operators.
    pub super_roles: &'a HashSet<String>,
    /// Ids of accounts at the same door that are operators without a role.
    pub accounts: &'a HashSet<String>,
}

impl Operators<'_> {
    /// True if the caller is an operator.
    #[must_use]
    pub fn include(self, caller: &Caller) -> bool {
        caller.operator || self.include_one(&caller.person, &caller.roles)
    }

    /// True if a person with these roles is an operator.
    #[must_use]
    pub fn include_one(self, person: &Person, roles: &[String]) -> bool {
        self.accounts.contains(person.id.as_str()) || roles.iter().any(|role| self.super_roles.contains(role))
    }
}
