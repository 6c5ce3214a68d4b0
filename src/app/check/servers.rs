//! Tries each configured tool server.

use secrecy::SecretString;

use super::report::{CheckStatus, Report};
use crate::app::reload::{self, Lookup};
use crate::app::servers::{self, Tried};
use crate::config::Settings;
use crate::mcp::config::Configured;
use crate::mcp::oauth::Logins;
use crate::ports::tools::{ServerEntry, ServerOff};

/// The row of the file as a whole.
const FILE: &str = "tool servers";
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

/// Connects to each server and reads its tools, side by side.
pub(super) async fn check(entries: &[ServerEntry], logins: &Logins, offline: bool, report: &mut Report) {
    if offline {
        for entry in entries {
            report.skipped(&part(entry), "not contacted: --offline");
        }
        return;
    }
    let tried = servers::try_all(entries, logins).await;
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
    match crate::mcp::nats::check(url).await {
        Ok(()) => report.ok(PART, "connected; processes that announce tools are heard while the bot runs"),
        Err(why) => report.wrong_with(PART, format!("{why}; check STAFFAI_NATS_URL, and whether the server runs")),
    }
}
