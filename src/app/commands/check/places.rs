//! Checks the roles and channels that the settings name at Discord. A missing one disables the feature that uses it.

use super::report::Report;
use discord::DOOR;
use discord::rest::Rest;
use discord::rest::setup::{ChannelState, RoleRights, Roles};
use settings::Settings;

const ROLES: &str = "discord roles";
const CHANNELS: &str = "discord channels";

/// The maximum number of communities whose roles are read.
const GUILDS_MAX: usize = 25;
/// The maximum number of channels that are read.
const CHANNELS_MAX: usize = 50;

/// Checks all of them; `guilds` are the ids of the bot's communities.
pub async fn check(rest: &Rest, settings: &Settings, guilds: &[String], report: &mut Report) {
    roles(rest, settings, guilds, report).await;
    channels(rest, settings, report).await;
}

async fn roles(rest: &Rest, settings: &Settings, guilds: &[String], report: &mut Report) {
    let named = named_roles(settings);
    if named.is_empty() {
        return;
    }
    if guilds.len() > GUILDS_MAX {
        return report.skipped(ROLES, format!("not checked in more than {GUILDS_MAX} servers"));
    }
    let known = match rest.roles_of(guilds).await {
        Ok(known) => known,
        Err(error) => return report.wrong_with(ROLES, error.to_string()),
    };
    let wrong = wrong_roles(settings, &known, &named);
    if wrong.is_empty() {
        return report.ok(ROLES, format!("all {} exist", named.len()));
    }
    for why in wrong {
        report.wrong_with(ROLES, why);
    }
}

/// Returns each role that the settings name, with its key.
fn named_roles(settings: &Settings) -> Vec<(&'static str, &str)> {
    let members = &settings.members;
    let restriction = settings.restriction.role.iter().map(|role| ("restriction.role", role.as_str()));
    let super_roles = members.super_roles.iter().map(|role| ("members.super_roles", role.as_str()));
    let ignored = members.ignored_roles.iter().map(|role| ("members.ignored_roles", role.as_str()));
    let limits = settings.rate_limiter.roles.iter().map(|row| ("rate_limiter.roles", row.id.as_str()));
    restriction.chain(super_roles).chain(ignored).chain(limits).collect()
}

fn wrong_roles(settings: &Settings, known: &Roles, named: &[(&'static str, &str)]) -> Vec<String> {
    let missing = named.iter().filter(|(_, role)| known.rights(role).is_none());
    let mut wrong: Vec<String> =
        missing.map(|(key, role)| format!("{key}: no server of the bot has a role with the id {role}")).collect();
    match settings.restriction.role.as_deref().and_then(|role| known.rights(role)) {
        Some(RoleRights::NotAllowed) => {
            wrong.push("restriction.role: no member can be restricted; give the bot Manage Roles".to_owned());
        }
        Some(RoleRights::TooHigh) => wrong.push(
            "restriction.role: no member can be restricted; move the bot's role above it in Server Settings > Roles"
                .to_owned(),
        ),
        Some(RoleRights::Grant) | None => {}
    }
    wrong
}

async fn channels(rest: &Rest, settings: &Settings, report: &mut Report) {
    let named = named_channels(settings);
    let mut wrong = 0;
    for (key, channel) in named.iter().take(CHANNELS_MAX) {
        let why = match rest.channel_state(channel).await {
            Ok(ChannelState::Seen) => continue,
            Ok(ChannelState::Missing) => format!("{key}: there is no channel with the id {channel}"),
            Ok(ChannelState::Hidden) => {
                format!("{key}: the bot cannot see the channel {channel}; give it View Channel there")
            }
            Err(error) => format!("{key}: {error}"),
        };
        report.wrong_with(CHANNELS, why);
        wrong += 1;
    }
    if wrong == 0 && !named.is_empty() {
        report.ok(CHANNELS, format!("all {} exist", named.len()));
    }
}

/// Returns each channel that the settings name, with its key.
fn named_channels(settings: &Settings) -> Vec<(&'static str, &str)> {
    let (restriction, interjection) = (&settings.restriction, &settings.interjection);
    let single = [
        ("restriction.channel", restriction.channel.as_deref()),
        ("restriction.audit_channel", restriction.audit_channel.as_deref()),
        ("report.channel", settings.report.channel.as_deref()),
    ];
    let single = single.into_iter().filter_map(|(key, channel)| channel.map(|channel| (key, channel)));
    let only = interjection.channels.iter().map(|id| ("interjection.channels", id.as_str()));
    let muted = interjection.muted_channels.iter().map(|id| ("interjection.muted_channels", id.as_str()));
    let limits = settings.rate_limiter.channels.iter().map(|row| ("rate_limiter.channels", row.id.as_str()));
    let timers = &settings.triggers.timers;
    let timers = timers.iter().filter_map(|row| Some(("triggers.timers", channel(&row.target)?)));
    let hooks = &settings.triggers.hooks;
    let hooks = hooks.iter().filter_map(|row| Some(("triggers.hooks", channel(&row.target)?)));
    single.chain(only).chain(muted).chain(limits).chain(timers).chain(hooks).collect()
}

/// Returns the channel that the target of a timer or webhook names, or `None` if the target is not a place of Discord.
fn channel(target: &str) -> Option<&str> {
    target.strip_prefix(DOOR.as_str())?.strip_prefix(':')
}
