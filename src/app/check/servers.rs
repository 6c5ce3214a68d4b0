//! Tries each configured tool server.

use secrecy::SecretString;

use super::report::{CheckStatus, Report};
use crate::app::mcp::logins;
use crate::app::reload::{self, Lookup};
use crate::app::servers::{self, Tried};
use crate::config::Settings;
use crate::domain::near;
use crate::domain::tool::name::callable;
use crate::domain::tool::rights;
use crate::mcp::config::Configured;
use crate::ports::tools::{ServerEntry, ServerOff};

/// The row of the file as a whole.
const FILE: &str = "tool servers";
/// The row of what is said about tools elsewhere.
const RULES: &str = "tool rules";
/// The most warnings of one server that are shown.
const WARNINGS_MAX: usize = 5;

/// Reads the entries; their secrets are added to `secrets`.
pub(super) fn read(
    settings: &Settings,
    lookup: &Lookup,
    secrets: &mut Vec<SecretString>,
    report: &mut Report,
) -> Vec<ServerEntry> {
    let Configured { servers, secrets: own } = match reload::servers(settings, lookup) {
        Ok((configured, _)) => configured,
        Err(mistake) => {
            report.wrong_with(FILE, mistake);
            return Vec::new();
        }
    };
    secrets.extend(own);
    for warning in servers.warnings {
        report.push(FILE, CheckStatus::Note, warning);
    }
    for ServerOff { name, mistake } in servers.off {
        let part = format!("mcp {name}");
        match mistake {
            Some(mistake) => report.wrong_with(&part, mistake),
            None => report.skipped(&part, "switched off in its entry"),
        }
    }
    servers.entries
}

/// Names patterns in rules and limits that fit no tool: a slip there restricts nothing. What a server that is away offers is not known.
fn patterns(settings: &Settings, tried: &[Tried], report: &mut Report) {
    for (place, pattern) in settings.tools.patterns() {
        let Some((server, _)) = pattern.split_once("__").filter(|(server, _)| !server.contains('*')) else { continue };
        let Some(found) = tried.iter().find(|tried| tried.entry.name.as_str() == server) else {
            // It may be another process that is not there now.
            if settings.tools.nats_url.is_some() {
                continue;
            }
            let near = near::nearest(server, tried.iter().map(|tried| tried.entry.name.as_str()));
            let hint = near.map_or_else(
                || "`staffai tools list` names the tools".to_owned(),
                |near| format!("did you mean {near}"),
            );
            report.push(RULES, CheckStatus::Note, format!("{place}: {pattern}: there is no server {server}; {hint}"));
            continue;
        };
        let Ok((_, listing)) = &found.outcome else { continue };
        let names: Vec<String> = listing.tools.iter().map(|tool| callable(&tool.source, &tool.name)).collect();
        if names.iter().any(|name| rights::matches(pattern, name)) {
            continue;
        }
        let near = near::nearest(pattern, names.iter().map(String::as_str));
        let hint = near.map_or_else(
            || format!("`staffai tools list` names its {}", names.len()),
            |near| format!("did you mean {near}"),
        );
        report.push(RULES, CheckStatus::Note, format!("{place}: {pattern} fits no tool of {server}; {hint}"));
    }
}

/// Connects to each server and reads its tools, side by side.
pub(super) async fn check(entries: &[ServerEntry], settings: &Settings, offline: bool, report: &mut Report) {
    if offline {
        for entry in entries {
            report.skipped(&part(entry), "not contacted: --offline");
        }
        return;
    }
    let tried = servers::try_all(entries, &logins(settings)).await;
    for Tried { entry, outcome, took } in &tried {
        let part = part(entry);
        let (server, listing) = match outcome {
            Ok(found) => found,
            Err(mistake) => {
                report.wrong_with(&part, mistake);
                continue;
            }
        };
        let (info, tools, ms) = (server.info(), listing.tools.len(), took.as_millis());
        let about = format!("{tools} tools of {} {}, protocol {}, {ms} ms", info.name, info.version, info.protocol);
        report.ok(&part, about);
        for warning in listing.warnings.iter().take(WARNINGS_MAX) {
            report.push(&part, CheckStatus::Note, warning);
        }
    }
    patterns(settings, &tried, report);
    servers::close(&tried).await;
}

fn part(entry: &ServerEntry) -> String {
    format!("mcp {}", entry.name)
}

/// Connects to NATS, over which other processes provide tools, where an address of it is configured.
pub(super) async fn nats(settings: &Settings, offline: bool, report: &mut Report) {
    const PART: &str = "nats";
    let Some(url) = &settings.tools.nats_url else { return };
    if offline {
        return report.skipped(PART, "not contacted: --offline");
    }
    match crate::nats::connect(url).await {
        Ok(_) => report.ok(PART, "connected; processes that announce tools are heard while the bot runs"),
        Err(why) => report.wrong_with(PART, format!("{why}; check STAFFAI_NATS_URL, and whether the server runs")),
    }
}
