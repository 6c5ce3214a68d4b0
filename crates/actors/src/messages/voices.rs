//! Messages of the supervisor of calls.

use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::caller::Caller;
use domain::ids::Place;
use domain::voice_channel::VoiceReply;
use ports::voice_calls::VoiceRoom;

/// The messages that the supervisor of calls handles.
pub enum VoicesMsg {
    /// From a command: joins a channel. The notices there are in this language.
    Join(Box<VoiceRoom>, Reply<VoiceReply>),
    /// From a command: leaves the channel of a community.
    Leave(String, Reply<VoiceReply>),
    /// From a command: the caller agrees to be heard in the call of their community, or no longer.
    Listen {
        /// The community.
        guild: String,
        /// The caller.
        caller: Box<Caller>,
        /// The voice channel of a caller who agrees; `None` if in none.
        channel: Option<Place>,
        /// True if the caller agrees.
        on: bool,
        /// The reply.
        reply: Reply<VoiceReply>,
    },
    /// From the app: the ranges of this process changed. Calls in communities of other ranges end.
    Follow,
    /// From a call: it ended, and the bot does not return by itself.
    Ended(String),
}

named!(VoicesMsg: Join, Leave, Listen, Follow, Ended);
