//! Checks the servers of `[[agents.peers]]`: tests each with its configured key.

use futures_util::future::join_all;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::report::{CheckStatus, Report};
use crate::app::built_ins;
use crate::app::configured::Lookup;
use settings::Settings;
use tools::agent_call::{self, Row};

/// The minimum length of a key: a shorter one can be guessed and used to sign lineages.
const KEY_LEAST: usize = 16;

/// Requests the health of all servers concurrently.
pub(super) async fn check(settings: &Settings, lookup: &Lookup, offline: bool, report: &mut Report) {
    let rows = match built_ins::agents::rows(settings, lookup) {
        Ok(rows) => rows,
        Err(mistakes) => return mistakes.into_iter().for_each(|mistake| report.wrong_with("agents", mistake)),
    };
    let part = |row: &Row| format!("agent {}", row.name);
    for row in &rows {
        if row.key.expose_secret().len() < KEY_LEAST {
            let about = format!(
                "its key has fewer than {KEY_LEAST} characters; set a key that `staffai key add` printed at that server"
            );
            report.push(&part(row), CheckStatus::Note, about);
        }
    }
    if !rows.is_empty() && settings.agents.name.is_none() {
        let about =
            "agents.name is not set: loops in chains of calls that began before a restart are not detected; set it";
        report.push("agents", CheckStatus::Note, about);
    }
    if offline {
        return rows.iter().for_each(|row| report.skipped(&part(row), "not contacted: --offline"));
    }
    let tried = rows.into_iter().map(|row| async {
        let (part, begun) = (part(&row), Instant::now());
        (part, agent_call::try_out(row).await, begun.elapsed().as_millis())
    });
    for (part, answer, ms) in join_all(tried).await {
        match answer {
            Ok(()) => report.ok(&part, format!("the key is accepted, {ms} ms")),
            Err(why) => report.wrong_with(&part, why),
        }
    }
}
