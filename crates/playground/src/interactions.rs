//! Interactions: members run commands and press buttons, the bot answers within three seconds and
//! may go on for a quarter of an hour.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::Value;

use crate::guild::ids::{ChannelId, GuildId, MessageId, UserId};

/// Time for the first answer, in milliseconds.
pub const FIRST_ANSWER_MS: u64 = 3_000;
/// Life of an interaction's token, in milliseconds.
pub const TOKEN_LIFETIME_MS: u64 = 15 * 60 * 1_000;
/// Interactions remembered; the oldest are forgotten first.
const REMEMBERED: usize = 1_000;
/// Commands of one guild, or of all of them.
const COMMANDS: usize = 110;
/// Guilds with commands of their own.
const SCOPES: usize = 1_024;
/// Multiplied with an id it makes a token that does not look like one.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a member did.
#[derive(Clone, Debug)]
pub enum Interact {
    /// Ran a command with these options, each as Discord sends it (`name`, `type`, `value`).
    Command(String, Vec<Value>),
    /// Types a command with these options so far; the one with `focused` is being typed.
    Typing(String, Vec<Value>),
    /// Pressed the button, or chose these values of the menu, with this `custom_id`.
    Component(MessageId, String, Vec<String>),
    /// Sent the form with this `custom_id`, its rows as Discord sends them.
    Form(String, Vec<Value>),
}

/// An interaction and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interaction {
    /// Its id.
    pub id: MessageId,
    /// Who began it.
    pub member: UserId,
    /// Where.
    pub channel: ChannelId,
    /// The command that was run.
    pub command: Option<String>,
    /// The message whose button was pressed.
    pub message: Option<MessageId>,
    /// The type of the first answer, as Discord numbers them; none so far.
    pub answer: Option<u64>,
    /// The first answer's data, where it is not a message: a form, or choices for what is typed.
    pub form: Option<String>,
    /// When it was begun, and when it was answered, in milliseconds since 1970.
    pub made_at: u64,
    /// When it was first answered, in milliseconds since 1970.
    pub answered_at: Option<u64>,
    /// The message that the first answer became.
    pub original: Option<MessageId>,
}

impl Interaction {
    /// The number in its token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.id.0.wrapping_mul(SPREAD)
    }
}

/// All interactions, and the commands by guild (or for all guilds).
#[derive(Debug, Default)]
pub struct Interactions {
    known: VecDeque<Interaction>,
    commands: BTreeMap<Option<GuildId>, Vec<Value>>,
}

impl Interactions {
    /// The interaction with this token.
    pub fn by_token(&mut self, token: u64) -> Option<&mut Interaction> {
        self.known.iter_mut().find(|known| known.token() == token)
    }

    /// The interaction with this id.
    pub fn by_id(&self, id: MessageId) -> Option<&Interaction> {
        self.known.iter().find(|known| known.id == id)
    }

    /// Remembers an interaction; the oldest gives way.
    pub fn remember(&mut self, interaction: Interaction) {
        if self.known.len() == REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(interaction);
    }

    /// True if this scope may have so many commands.
    pub fn has_room(&self, scope: Option<GuildId>, commands: usize) -> bool {
        commands <= COMMANDS && (self.commands.len() < SCOPES || self.commands.contains_key(&scope))
    }

    /// Replaces the commands of a scope.
    pub fn set_commands(&mut self, scope: Option<GuildId>, commands: Vec<Value>) {
        self.commands.insert(scope, commands);
    }

    /// The commands of a guild, or those for all.
    #[must_use]
    pub fn commands(&self, scope: Option<GuildId>) -> &[Value] {
        self.commands.get(&scope).map(Vec::as_slice).unwrap_or_default()
    }
}
