//! The commands about voice channels: `/join`, `/leave` and `/listen`.

use std::time::Duration;

use super::CommandParts;
use crate::messages::voices::VoicesMsg;
use domain::command::{Command, SWITCH, SWITCH_VALUES};
use domain::menu::Choice;
use domain::notice::commands as words;
use domain::voice_channel::VoiceReply;
use ports::voice_calls::VoiceRoom;

/// The timeout of a request to the supervisor of calls.
const TIMEOUT: Duration = Duration::from_secs(12);

/// Has the bot join the voice channel of the caller.
pub(super) async fn join(parts: &CommandParts, command: &Command, is_operator: bool) -> String {
    let locale = command.caller.locale();
    words::voice(joined(parts, command, is_operator).await, locale).to_owned()
}

async fn joined(parts: &CommandParts, command: &Command, is_operator: bool) -> VoiceReply {
    if !may_move(parts, is_operator) {
        return VoiceReply::NotAllowed;
    }
    let (Some(calls), Some(guild)) = (&parts.calls, &command.guild) else { return VoiceReply::NotThere };
    let person = command.caller.person.clone();
    let channel = match calls.channel_of(guild, &person).await {
        Ok(Some(channel)) => channel,
        Ok(None) => return VoiceReply::NotThere,
        Err(_) => return VoiceReply::Failed,
    };
    let roles = command.caller.roles.clone();
    let language = command.caller.locale.clone();
    let room = Box::new(VoiceRoom { guild: guild.clone(), channel, caller: person, roles, language });
    let joined = parts.voices.call(|reply| VoicesMsg::Join(room, reply), TIMEOUT).await;
    joined.unwrap_or(VoiceReply::Failed)
}

/// Has the bot leave its voice channel in the community of the command.
pub(super) async fn leave(parts: &CommandParts, command: &Command, is_operator: bool) -> String {
    let reply = match &command.guild {
        _ if !may_move(parts, is_operator) => VoiceReply::NotAllowed,
        None => VoiceReply::Absent,
        Some(guild) => {
            let left = parts.voices.call(|reply| VoicesMsg::Leave(guild.clone(), reply), TIMEOUT).await;
            left.unwrap_or(VoiceReply::Failed)
        }
    };
    words::voice(reply, command.caller.locale()).to_owned()
}

/// Lets the bot hear the caller in its voice channel, or no longer.
pub(super) async fn listen(parts: &CommandParts, command: &Command) -> String {
    // Any other word than "off" would leave a member heard who wants to end it.
    let on = command.option(SWITCH).is_none_or(|value| value == SWITCH_VALUES[0] || value.is_empty());
    words::voice(listened(parts, command, on).await, command.caller.locale()).to_owned()
}

async fn listened(parts: &CommandParts, command: &Command, on: bool) -> VoiceReply {
    let (Some(calls), Some(guild)) = (&parts.calls, &command.guild) else { return VoiceReply::Absent };
    let caller = Box::new(command.caller.clone());
    let channel = if on {
        let Ok(channel) = calls.channel_of(guild, &caller.person).await else { return VoiceReply::Failed };
        channel
    } else {
        None
    };
    let listen = |reply| VoicesMsg::Listen { guild: guild.clone(), caller, channel, on, reply };
    parts.voices.call(listen, TIMEOUT).await.unwrap_or(VoiceReply::Failed)
}

/// Returns the values of the option of `/listen`.
pub(super) fn choices() -> Vec<Choice> {
    SWITCH_VALUES.map(|value| Choice { name: value.to_owned(), value: value.to_owned() }).into()
}

/// True if the caller may move the bot between voice channels.
fn may_move(parts: &CommandParts, is_operator: bool) -> bool {
    parts.basics.live.now().settings.discord.voice.admits(is_operator)
}
