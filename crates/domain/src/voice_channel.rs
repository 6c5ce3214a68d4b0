//! Voice channels that the bot joins: the replies to commands about them, and the notices in the channel.

/// The reply to a command about voice channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceReply {
    /// The bot joins the channel of the caller.
    Joining,
    /// The bot is in the channel of the caller already.
    Already,
    /// The bot is in another channel of the community.
    Elsewhere,
    /// The bot is in no channel of the community.
    Absent,
    /// The caller is in no voice channel.
    NotThere,
    /// The operator does not let the caller move the bot.
    NotAllowed,
    /// The bot is in too many channels.
    Full,
    /// The bot hears as many members as it can.
    TooManyHeard,
    /// The bot leaves its channel.
    Leaving,
    /// The bot hears the caller from now on.
    Listening,
    /// The bot no longer hears the caller.
    Deaf,
    /// No row transcribes speech.
    NoHearing,
    /// The platform or an actor did not answer.
    Failed,
}

/// A notice in the text chat of a voice channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VoiceNotice<'a> {
    /// The bot is in the channel.
    Joined {
        /// True if members can let it hear them.
        hears: bool,
    },
    /// The bot hears the member with this name.
    Listens(&'a str),
    /// The bot no longer hears the member with this name.
    Deaf(&'a str),
    /// The bot left, because the connection was lost and could not be restored.
    Lost,
}

/// Returns the text under which the words of a member appear in the text chat.
#[must_use]
pub fn transcript(name: &str, words: &str) -> String {
    format!("\u{1f399} **{name}:** {words}")
}
