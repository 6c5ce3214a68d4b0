//! Validation of ids. In the configuration an id is text, because platforms use different formats: Discord's are integers,
//! Slack's begin with a letter. Slack's are valid in the lists that apply to both platforms, if its door is open. A tool
//! rule that names other doors may have any ids.

use super::{Checks, Settings};
use crate::community::Members;

/// The roles of the administrators of a workspace at Slack.
const SLACK_ROLES: [&str; 2] = ["admin", "owner"];

/// The door whose ids are checked here.
const DOOR: &str = "discord";

const ONE: &str = "must be a Discord id, which is a whole number";
const LIST: &str = "must be a comma-separated list of Discord ids, which are whole numbers";

impl Checks<'_> {
    /// Normalises the roles that have settings of their own.
    fn keys(&mut self, members: &mut Members, is_id: impl Fn(&mut String) -> bool) {
        let mut all = true;
        for (mut role, settings) in std::mem::take(&mut members.role_settings) {
            all &= is_id(&mut role);
            members.role_settings.entry(role).or_default().extend(settings);
        }
        if !all {
            self.problem("members.role_settings", "each role must be a Discord id, which is a whole number");
        }
    }

    /// Normalises Discord ids. An invalid role in a list is skipped with a warning, as in the Python bot; any other
    /// mistake stops the program.
    pub(super) fn ids(&mut self, settings: &mut Settings) {
        let slack = settings.slack.tokens().is_some();
        let shared = |id: &mut String| normalise(id) || (slack && is_slack(id));
        let Settings { discord, members, bots, rate_limiter, restriction, interjection, report, replay, tools, .. } =
            settings;
        for (key, roles) in
            [("members.super_roles", &mut members.super_roles), ("members.ignored_roles", &mut members.ignored_roles)]
        {
            roles.retain_mut(|role| {
                let usable = shared(role);
                if !usable {
                    self.warn(format!("{key}: {role:?} is not a Discord id, which is a whole number; it is ignored"));
                }
                usable
            });
        }
        self.keys(members, shared);
        for (key, ids) in [("discord.guilds", &mut discord.guilds), ("replay.channels", &mut replay.channels)] {
            if !all(ids) {
                self.problem(key, LIST);
            }
        }
        for (key, ids) in [
            ("discord.operators", &mut discord.operators),
            ("bots.allowed", &mut bots.allowed),
            ("interjection.channels", &mut interjection.channels),
            ("interjection.muted_channels", &mut interjection.muted_channels),
        ] {
            if !ids.iter_mut().all(shared) {
                self.problem(key, LIST);
            }
        }
        for (key, id) in [
            ("restriction.role", &mut restriction.role),
            ("restriction.channel", &mut restriction.channel),
            ("restriction.audit_channel", &mut restriction.audit_channel),
            ("report.channel", &mut report.channel),
            ("report.failures_channel", &mut report.failures_channel),
        ] {
            if !id.as_mut().is_none_or(shared) {
                self.problem(key, ONE);
            }
        }
        for (key, rows) in
            [("rate_limiter.roles", &mut rate_limiter.roles), ("rate_limiter.channels", &mut rate_limiter.channels)]
        {
            if !rows.iter_mut().all(|row| shared(&mut row.id)) {
                self.problem(key, "each id must be a Discord id, which is a whole number");
            }
        }
        let mut budgets = rate_limiter.limits.iter_mut();
        if !budgets.all(|row| row.roles.iter_mut().chain(&mut row.channels).all(shared)) {
            self.problem("rate_limiter.limits", "roles and channels must be Discord ids, which are whole numbers");
        }
        let ours = |rule: &&mut super::super::tools::ToolRule| rule.doors.iter().all(|door| door == DOOR);
        for rule in tools.rules.iter_mut().filter(ours) {
            let lists = [&mut rule.roles, &mut rule.users, &mut rule.channels, &mut rule.except, &mut rule.approvers];
            if !lists.into_iter().all(|ids| all(ids)) {
                let fix = "roles, users, channels, except and approvers must be Discord ids, which are whole numbers; \
                           a rule for other doors names them in doors";
                self.problem("tools.rules", fix);
            }
        }
    }
}

/// Returns the mistake in an id of this door, if any.
#[must_use]
pub fn mistake_in(door: &str, id: &str) -> Option<&'static str> {
    (door == DOOR && !normalise(&mut id.to_owned())).then_some(ONE)
}

fn all(ids: &mut [String]) -> bool {
    ids.iter_mut().all(normalise)
}

/// True for an id of Slack, such as `S0614TZR7` or `C024BE91L`, and for the roles of its administrators.
fn is_slack(id: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let is_id = id.starts_with(|c: char| c.is_ascii_uppercase()) && id.len() > 1 && id.chars().all(is_part);
    is_id || SLACK_ROLES.contains(&id)
}

/// Removes leading zeros; returns false if it is not a Discord id.
fn normalise(id: &mut String) -> bool {
    match id.parse::<u64>() {
        Ok(number) if number > 0 => {
            *id = number.to_string();
            true
        }
        Ok(_) | Err(_) => false,
    }
}
