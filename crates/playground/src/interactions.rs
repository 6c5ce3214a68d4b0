//! Interactions: members run commands and press buttons; the bot answers within three seconds and may follow up for 15
//! minutes.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::Value;

use crate::guild::ids::{ChannelId, GuildId, MessageId, UserId};

/// Timeout of the first answer, in milliseconds.
pub const FIRST_ANSWER_MS: u64 = 3_000;
/// Lifetime of an interaction's token, in milliseconds.
pub const TOKEN_LIFETIME_MS: u64 = 15 * 60 * 1_000;
/// Maximum number of interactions; the oldest are evicted first.
const REMEMBERED: usize = 1_000;
/// Maximum number of commands of one scope: a guild, or all guilds.
const COMMANDS: usize = 110;
/// Maximum number of guilds with commands of their own.
const SCOPES: usize = 1_024;
/// A multiplier that makes a token look unlike an id.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A member's action.
#[derive(Clone, Debug)]
pub enum Interact {
    /// Ran a command with these options, in Discord's format (`name`, `type`, `value`).
    Command(String, Vec<Value>),
    /// Is typing a command with these options so far; the one with `focused` is being typed.
    Typing(String, Vec<Value>),
    /// Pressed the button with this `custom_id`, or chose these values of the menu.
    Component(MessageId, String, Vec<String>),
    /// Submitted the form with this `custom_id`, with rows in Discord's format.
    Form(String, Vec<Value>),
}

/// An interaction and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interaction {
    /// Its id.
    pub id: MessageId,
    /// The member who began it.
    pub member: UserId,
    /// Its channel.
    pub channel: ChannelId,
    /// The command.
    pub command: Option<String>,
    /// The message with the button.
    pub message: Option<MessageId>,
    /// The type of the first answer, in Discord's numbers, once there is one.
    pub answer: Option<u64>,
    /// The data of a first answer that is not a message: a form, or autocomplete choices.
    pub form: Option<String>,
    /// Its start, in milliseconds since 1970.
    pub made_at: u64,
    /// The time of the first answer, in milliseconds since 1970.
    pub answered_at: Option<u64>,
    /// The message of the first answer.
    pub original: Option<MessageId>,
}

impl Interaction {
    /// Returns the number in its token.
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
    /// Returns the interaction with this token.
    pub fn by_token(&mut self, token: u64) -> Option<&mut Interaction> {
        self.known.iter_mut().find(|known| known.token() == token)
    }

    /// Returns the interaction with this id.
    pub fn by_id(&self, id: MessageId) -> Option<&Interaction> {
        self.known.iter().find(|known| known.id == id)
    }

    /// Adds an interaction and evicts the oldest beyond the bound.
    pub fn remember(&mut self, interaction: Interaction) {
        if self.known.len() == REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(interaction);
    }

    /// True if this scope may have this many commands.
    pub fn has_room(&self, scope: Option<GuildId>, commands: usize) -> bool {
        commands <= COMMANDS && (self.commands.len() < SCOPES || self.commands.contains_key(&scope))
    }

    /// Replaces the commands of a scope.
    pub fn set_commands(&mut self, scope: Option<GuildId>, commands: Vec<Value>) {
        self.commands.insert(scope, commands);
    }

    /// Returns the commands of a guild, or those for all.
    #[must_use]
    pub fn commands(&self, scope: Option<GuildId>) -> &[Value] {
        self.commands.get(&scope).map(Vec::as_slice).unwrap_or_default()
    }
}
