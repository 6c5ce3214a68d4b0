//! The slash command `/staffai NAME ARGUMENT`: all commands of the bot are its names, because a workspace has one list
//! of slash commands for all apps.
//!
//! Source: `docs.slack.dev/interactivity/implementing-slash-commands`.

use std::borrow::Cow;

use serde::Deserialize;

use super::ids;
use super::incoming_text::plain;
use super::people::Profile;
use super::unreadable::Unreadable;
use domain::command::{Callback, CallbackToken, Caller, Command, CommandKind};
use domain::ids::{MessageId, Timestamp};
use domain::menu::{OptionKind, option};

/// The longest text of a command that is read, in bytes.
const TEXT_BYTES: usize = 16 * 1024;
/// The longest id of a run, in bytes.
const TRIGGER_BYTES: usize = 200;
/// The slash command of this app.
pub(super) const COMMAND: &str = "/staffai";
/// The command without a name.
const DEFAULT: &str = "help";

/// A command that a member ran. The data of the member is not known yet.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) user: String,
    pub(super) channel: String,
    team: String,
    text: String,
    /// Opens a modal, within three seconds.
    pub(super) trigger: String,
    pub(super) callback: Callback,
}

/// Returns a code as it is typed here: `/help` becomes `/staffai help`, and the name of an option becomes its place.
pub(super) fn shown(code: &str) -> Cow<'_, str> {
    let words = code.strip_prefix('/').map(|words| words.split_once(' ').unwrap_or((words, "")));
    let Some((name, argument)) = words.filter(|(name, _)| CommandKind::named(name).is_some()) else {
        return code.into();
    };
    let named =
        CommandKind::named(name).and_then(option).and_then(|spec| argument.strip_prefix(spec.name)?.strip_prefix(':'));
    let argument = named.map_or(Cow::Borrowed(argument), |value| format!("…{value}").into());
    format!("{COMMAND} {name} {argument}").trim_end().to_owned().into()
}

/// Reads the payload of a slash command.
pub(super) fn read(payload: &str) -> Result<Run, Unreadable> {
    #[derive(Deserialize)]
    struct Wire {
        user_id: String,
        channel_id: String,
        team_id: String,
        #[serde(default)]
        text: String,
        #[serde(default)]
        response_url: String,
        #[serde(default)]
        trigger_id: String,
    }
    let wire: Wire = serde_json::from_str(payload)?;
    if [&wire.user_id, &wire.channel_id, &wire.team_id].into_iter().any(|id| !ids::is_id(id)) {
        return Err(Unreadable::id());
    }
    if wire.text.len() > TEXT_BYTES || wire.trigger_id.len() > TRIGGER_BYTES {
        return Err(Unreadable::length());
    }
    let callback = Callback {
        id: MessageId::new(super::DOOR, format!("{}:run:{}", wire.channel_id, wire.trigger_id)),
        // Files of the answer go to this member.
        application: wire.user_id.clone(),
        token: CallbackToken::new(wire.response_url),
    };
    Ok(Run {
        user: wire.user_id,
        channel: wire.channel_id,
        team: wire.team_id,
        text: wire.text,
        trigger: wire.trigger_id,
        callback,
    })
}

impl Run {
    /// True for the command of the settings without an argument, which opens their dialogue.
    pub(super) fn opens_settings(&self) -> bool {
        let mut words = self.text.split_whitespace();
        let name = words.next().unwrap_or_default().trim_start_matches('/');
        words.next().is_none() && CommandKind::named(name) == Some(CommandKind::Settings)
    }

    /// Returns the command of this member, at this time.
    pub(super) fn command(self, member: Profile, at: Timestamp) -> Command {
        let Self { user, channel, team, text, callback, trigger: _ } = self;
        let text = plain(text.trim());
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let name = if name.is_empty() { DEFAULT } else { name.trim_start_matches('/') };
        let (mut options, mut named) = (Vec::new(), Vec::new());
        if let Some(spec) = CommandKind::named(name).and_then(option)
            && !argument.trim().is_empty()
        {
            let mut value = argument.trim();
            if spec.kind == OptionKind::Member {
                value = value.trim_start_matches("<@").trim_end_matches('>');
                if ids::is_id(value) {
                    named.push((ids::person(value), Vec::new()));
                }
            }
            options.push((spec.name.to_owned(), value.to_owned()));
        }
        let Profile { name: caller, locale, roles, .. } = member;
        let caller = Caller { person: ids::person(&user), name: caller, roles, locale, operator: false };
        let guild = (!ids::is_direct(&channel)).then_some(team);
        let place = ids::channel(&channel);
        Command { callback, name: name.to_owned(), options, named, caller, place, parent: None, guild, at }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ran(text: &str) -> Command {
        let payload = json!({"command": "/staffai", "text": text, "user_id": "U1", "channel_id": "C1", "team_id": "T1",
            "response_url": "https://hooks.slack.com/commands/1", "trigger_id": "1.2.a"});
        let ann = Profile { name: "Ann".to_owned(), locale: None, bot: false, roles: Vec::new(), roles_known: true };
        read(&payload.to_string()).unwrap().command(ann, Timestamp(0))
    }

    #[test]
    fn the_first_word_names_the_command_and_the_rest_is_its_option() {
        let of = |text| {
            let command = ran(text);
            (command.name, command.options)
        };
        let option = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(of(""), ("help".to_owned(), Vec::new()));
        assert_eq!(of("forget"), ("forget".to_owned(), Vec::new()));
        assert_eq!(
            of("remember I like tea &amp; toast"),
            ("remember".to_owned(), option("fact", "I like tea & toast"))
        );
        assert_eq!(of("usage <@U2|ben>"), ("usage".to_owned(), option("user", "U2")));
        assert_eq!(of("dance now"), ("dance".to_owned(), Vec::new()));
        assert_eq!(ran("usage <@U2>").named, [(ids::person("U2"), Vec::new())]);
    }

    #[test]
    fn an_odd_command_is_unreadable() {
        assert!(read(r#"{"user_id": "U 1", "channel_id": "C1", "team_id": "T1"}"#).is_err());
        assert!(read("[]").is_err());
    }
}
