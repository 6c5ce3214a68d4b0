//! The caller of a tool, for the accounts that its call counts in.

use domain::ids::{Person, Place};
use domain::people::Linked;
use domain::turn::Turn;

/// The caller of a tool, and the place of the call.
#[derive(Debug, Clone, Copy)]
pub struct CallBy<'a> {
    /// The person.
    pub person: &'a Person,
    /// All accounts of the person.
    pub linked: &'a Linked,
    /// The ids of the person's roles.
    pub roles: &'a [String],
    /// The community; `None` in direct conversations.
    pub guild: Option<&'a str>,
    /// The place.
    pub place: &'a Place,
    /// The parent of that place.
    pub parent: Option<&'a Place>,
}

impl<'a> From<&'a Turn> for CallBy<'a> {
    fn from(turn: &'a Turn) -> Self {
        let Turn { person, linked, roles, place, .. } = turn;
        Self { person, linked, roles, guild: turn.guild.as_deref(), place, parent: turn.parent.as_ref() }
    }
}
