//! Calls: voice channels of a platform that the bot joins.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::sync::watch;

use super::{PostError, WorkPayer};
use domain::ids::{Person, Place};

/// The maximum number of members who are heard in one call: a decoder has about 20 KiB.
pub const HEARD_MAX: usize = 25;

/// A voice channel. Its text chat is the place with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceRoom {
    /// The community.
    pub guild: String,
    /// The channel.
    pub channel: Place,
    /// The member who asked the bot to join, and who pays for its speech.
    pub caller: Person,
    /// The ids of that member's roles.
    pub roles: Vec<String>,
    /// The language tag of that member, such as `de`: that of notices and announcements. English if absent.
    pub language: Option<String>,
}

impl VoiceRoom {
    /// Returns the payer of the bot's speech.
    #[must_use]
    pub fn payer(&self) -> WorkPayer {
        self.payer_of(self.caller.clone(), self.roles.clone())
    }

    /// Returns a member of the channel with these roles as a payer.
    #[must_use]
    pub fn payer_of(&self, person: Person, roles: Vec<String>) -> WorkPayer {
        let (guild, place) = (Some(self.guild.clone()), self.channel.clone());
        WorkPayer { person, guild, roles, place, parent: None, own: None }
    }
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// The connection was lost; joining again may succeed.
    Lost(String),
    /// The platform ended the call: the bot does not return by itself.
    Dismissed(String),
}

/// The members who agreed to be heard.
pub type Consents = watch::Receiver<Arc<HashSet<Person>>>;

/// The receiver of a call's events. It never waits.
pub trait CallHost: Send + Sync {
    /// The bot is in the channel, and speaks.
    fn joined(&self);

    /// A member said this. It becomes a question.
    fn heard(&self, speaker: Person, words: String);

    /// A member left the channel. It may be one who never agreed to be heard.
    fn left(&self, member: Person);

    /// A member interrupted the answer of this turn, which was heard up to here.
    fn interrupted(&self, turn: String, heard: String);
}

/// The voice channels of a platform.
#[async_trait]
pub trait VoiceCalls: Send + Sync {
    /// True if members can be heard: a row transcribes speech.
    fn can_hear(&self) -> bool;

    /// Returns the voice channel in which a member is; `None` if in none.
    ///
    /// # Errors
    /// The platform did not answer.
    async fn channel_of(&self, guild: &str, member: &Person) -> Result<Option<Place>, PostError>;

    /// Joins a channel, speaks the answers to questions of its text chat, and hears the members who agreed, until the call
    /// ends. Dropping the future leaves the channel.
    async fn run(&self, room: VoiceRoom, consents: Consents, host: Arc<dyn CallHost>) -> CallEnd;
}

/// The data with which a voice server admits the bot.
#[derive(Debug, Clone)]
pub struct VoiceAccess {
    /// The community.
    pub guild: String,
    /// The channel.
    pub channel: String,
    /// The bot's account.
    pub user: String,
    /// The session of the bot in the channel.
    pub session: String,
    /// The host of the voice server, with its port.
    pub endpoint: String,
    /// The token for this server.
    pub token: SecretString,
}

/// The bot's voice channel in a community, as the platform reports it.
#[derive(Debug, Clone, Default)]
pub struct VoiceStanding {
    /// The voice channel in which the platform has the bot; `None` if in none.
    pub channel: Option<String>,
    /// The access to the channel's voice server, once the platform named it.
    pub access: Option<VoiceAccess>,
}

/// The part of a platform's event connection that concerns voice channels.
#[async_trait]
pub trait VoiceSignals: Send + Sync {
    /// Asks the platform to move the bot to this channel of a community; `None` leaves.
    fn request(&self, guild: &str, channel: Option<&str>);

    /// Returns the bot's position in a community, which changes.
    fn standing(&self, guild: &str) -> watch::Receiver<VoiceStanding>;

    /// As [`VoiceCalls::channel_of`].
    ///
    /// # Errors
    /// The platform did not answer.
    async fn channel_of(&self, guild: &str, member: &Person) -> Result<Option<Place>, PostError>;
}
