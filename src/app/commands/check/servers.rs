//! Checks each configured tool server.

use secrecy::SecretString;

use super::report::{CheckStatus, Report};
use crate::app::built_ins;
use crate::app::commands::mcp::logins;
use crate::app::commands::tools::stored;
use crate::app::configured::Lookup;
use crate::app::servers::{self, Tried};
use crate::app::setting_files;
use domain::near;
use domain::tool::name::callable;
use domain::tool::pattern::NamePattern;
use domain::tool::{Effect, ServerName, Tool};
use mcp::config::Configured;
use ports::tools::{ServerEntry, ServerOff};
use settings::Settings;

/// The row of the whole file.
const FILE: &str = "tool servers";
/// The row of tool names in other settings.
const RULES: &str = "tool rules";
/// The maximum number of warnings shown per server.
const WARNINGS_MAX: usize = 5;

/// Reads the entries; adds their secrets to `secrets`.
pub(super) fn read(
    settings: &Settings,
    lookup: &Lookup,
    secrets: &mut Vec<SecretString>,
    report: &mut Report,
) -> Vec<ServerEntry> {
    let Configured { servers, secrets: own } = match setting_files::servers(settings, lookup) {
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
            None => report.skipped(&part, "disabled in its entry"),
        }
    }
    servers.entries
}

/// The tools that patterns of names are compared with.
struct Offered<'a> {
    entries: &'a [ServerEntry],
    /// The tested servers.
    tried: &'a [Tried],
    /// The names of the built-in tools.
    own: Vec<String>,
    /// True if currently absent processes may offer more tools.
    nats: bool,
    /// True if some tools may be unknown here.
    more: bool,
}

impl<'a> Offered<'a> {
    fn new(settings: &Settings, lookup: &Lookup, entries: &'a [ServerEntry], tried: &'a [Tried]) -> Self {
        let own = built_ins::by_hand(settings, lookup);
        let away =
            |entry: &ServerEntry| !tried.iter().any(|tried| tried.entry.name == entry.name && tried.outcome.is_ok());
        // Another part reports the mistakes in the built-in tools.
        let nats = settings.tools.nats_url.is_some();
        let more = nats || own.is_err() || entries.iter().any(away);
        let own = own.map(|own| own.tools().iter().map(|tool| tool.name.to_string()).collect()).unwrap_or_default();
        Self { entries, tried, own, nats, more }
    }

    fn of(&self, server: &ServerName) -> Option<Vec<String>> {
        let tried = self.tried.iter().find(|tried| tried.entry.name == *server)?;
        let (_, listing) = tried.outcome.as_ref().ok()?;
        Some(listing.tools.iter().map(|tool| callable(&tool.source, &tool.name)).collect())
    }

    /// Returns the problem of a pattern that matches no tool. The tools of an unavailable server are unknown, so
    /// patterns for them are accepted.
    fn oddity(&self, wanted: &NamePattern) -> Option<String> {
        let (pattern, fits) = (wanted.as_str(), |names: &[String]| names.iter().any(|name| wanted.matches(name)));
        let near = |names: &[String], else_: String| {
            let near = near::nearest(pattern, names.iter().map(String::as_str));
            near.map_or(else_, |near| format!("did you mean {near}?"))
        };
        let is_open = |text: &str| wanted.is_expression() || text.contains('*');
        let Some((server, _)) = pattern.split_once("__").filter(|(server, _)| !is_open(server)) else {
            // Without a star, only a built-in tool can match.
            let unknown = if is_open(pattern) { self.more } else { self.own.is_empty() };
            let everywhere = || self.entries.iter().filter_map(|entry| self.of(&entry.name)).any(|names| fits(&names));
            let odd = !unknown && !fits(&self.own) && !everywhere();
            let is_kind = self.entries.iter().any(|entry| entry.kind.as_str() == pattern);
            return (odd && !is_kind).then(|| {
                format!(
                    "{pattern} matches no tool; {}",
                    near(&self.own, "`staffai tools list` lists the tools".to_owned())
                )
            });
        };
        let Some(entry) = self.entries.iter().find(|entry| entry.name.as_str() == server) else {
            // The name may belong to a process that is absent now.
            let near = near::nearest(server, self.entries.iter().map(|entry| entry.name.as_str()));
            let hint = near.map_or_else(
                || "`staffai tools list` lists the tools".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            return (!self.nats).then(|| format!("{pattern}: there is no server {server}; {hint}"));
        };
        let names = self.of(&entry.name).filter(|names| !fits(names))?;
        let hint = near(&names, format!("`staffai tools list` lists its {}", names.len()));
        Some(format!("{pattern} matches no tool of {server}; {hint}"))
    }
}

/// Reports patterns in rules and limits that match no tool: a typo there restricts nothing.
fn patterns(settings: &Settings, offered: &Offered<'_>, report: &mut Report) {
    for (place, pattern) in settings.tools.patterns() {
        if let Some(oddity) = offered.oddity(&pattern) {
            report.push(RULES, CheckStatus::Note, format!("{place}: {oddity}"));
        }
    }
}

/// Returns the parts of `reuse_results` that have no effect: results are reused only of tools that read.
fn unused(entry: &ServerEntry, tools: &[Tool]) -> Vec<String> {
    const FIX: &str = "`side_effects = false` or `trusted = true` says that they only read";
    let reads = |tool: &Tool| Effect::of(tool, entry.side_effects, entry.trusted) == Effect::Reads;
    let mut unused = Vec::new();
    if entry.reuse.usual.is_some() && !tools.iter().any(reads) {
        unused.push(format!("reuse_results has no effect: no tool of this server is known to only read; {FIX}"));
    }
    for (name, _) in entry.reuse.tools.iter().filter(|(_, time)| !time.is_zero()) {
        match tools.iter().find(|tool| *tool.name == **name) {
            None => unused.push(format!("reuse_results: this server has no tool {name}")),
            Some(tool) if !reads(tool) => {
                unused.push(format!("reuse_results has no effect for {name}: it may change something; {FIX}"));
            }
            Some(_) => {}
        }
    }
    unused
}

/// Connects to all servers concurrently and reads their tools.
pub(super) async fn check(
    entries: &[ServerEntry],
    settings: &Settings,
    lookup: &Lookup,
    offline: bool,
    report: &mut Report,
) {
    if offline {
        for entry in entries {
            match mcp::possible(entry) {
                Ok(()) => report.skipped(&part(entry), "not contacted: --offline"),
                Err(mistake) => report.wrong_with(&part(entry), mistake.to_string()),
            }
        }
        return patterns(settings, &Offered::new(settings, lookup, entries, &[]), report);
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
        let unused = unused(entry, &listing.tools);
        for warning in listing.warnings.iter().chain(&unused).take(WARNINGS_MAX) {
            report.push(&part, CheckStatus::Note, warning);
        }
    }
    // Another row reports an unreadable store.
    let records = stored::records(settings, &tried).await.unwrap_or_default();
    for (server, record) in records.iter().filter(|(_, record)| !record.held.is_empty()) {
        let tools = record.held.join(", ");
        let about = format!("held back, because their definitions changed: {tools}; /refresh_tools accepts them");
        report.push(&format!("mcp {server}"), CheckStatus::Note, about);
    }
    patterns(settings, &Offered::new(settings, lookup, entries, &tried), report);
    servers::close(&tried).await;
}

fn part(entry: &ServerEntry) -> String {
    format!("mcp {}", entry.name)
}

/// Connects to NATS, if an address is configured. Other processes provide tools over it.
pub(super) async fn nats(settings: &Settings, offline: bool, report: &mut Report) {
    const PART: &str = "nats";
    let Some(url) = &settings.tools.nats_url else { return };
    if offline {
        return report.skipped(PART, "not contacted: --offline");
    }
    match nats::connect(url).await {
        Ok(_) => report.ok(PART, "connected; tools of other processes are offered while the bot runs"),
        Err(why) => report.wrong_with(PART, format!("{why}; check STAFFAI_NATS_URL and the server")),
    }
}
