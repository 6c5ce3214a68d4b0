//! Checks the built-in tools that reach external data.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::report::{CheckStatus, Report};
use crate::app::built_ins;
use crate::app::configured::Lookup;
use crate::app::system::SystemClock;
use settings::Settings;
use tools::google_drive;
use tools::web_search::{self, Trial};

/// Adds a row for each configured tool.
pub(super) async fn check(settings: &Settings, lookup: &Lookup, offline: bool, report: &mut Report) {
    pages(settings, report);
    searches(settings, lookup, offline, report).await;
    images(settings, lookup, report);
    drive(settings, offline, report).await;
    databases(settings, lookup, offline, report).await;
}

/// Reads one row of each readable table.
#[cfg(feature = "databases")]
async fn databases(settings: &Settings, lookup: &Lookup, offline: bool, report: &mut Report) {
    let databases = match built_ins::databases::databases(settings, lookup) {
        Ok(databases) => databases,
        Err(mistakes) => {
            for mistake in mistakes {
                report.wrong_with("database", mistake);
            }
            return;
        }
    };
    for database in databases {
        let part = format!("database {}", database.name());
        if offline {
            report.skipped(&part, "not contacted: --offline");
            continue;
        }
        match database.try_out().await {
            Ok(()) => report.ok(&part, "its tables can be read"),
            Err(reason) => report.wrong_with(&part, reason),
        }
    }
}

#[cfg(not(feature = "databases"))]
#[expect(clippy::unused_async, reason = "the other one waits")]
async fn databases(settings: &Settings, lookup: &Lookup, _offline: bool, report: &mut Report) {
    for mistake in built_ins::databases::tools(settings, lookup).err().unwrap_or_default() {
        report.wrong_with("database", mistake);
    }
}

fn pages(settings: &Settings, report: &mut Report) {
    let pages = &settings.url_extract;
    if !pages.enabled {
        return;
    }
    match built_ins::pages(pages) {
        Ok(options) => {
            for (host, denied) in options.reach.contradictions() {
                let about = format!("url_extract.allow has no effect on {host}, because url_extract.deny has {denied}");
                report.push("url_extract", CheckStatus::Note, about);
            }
        }
        Err(mistakes) => mistakes.into_iter().for_each(|mistake| report.wrong_with("url_extract", mistake)),
    }
    let ports: Vec<String> = pages.ports.iter().map(u16::to_string).collect();
    let hosts = if pages.allow.is_empty() { "all public hosts".to_owned() } else { pages.allow.join(", ") };
    let not = if pages.deny.is_empty() { String::new() } else { format!(", but not {}", pages.deny.join(", ")) };
    let about = format!("pages of {hosts}{not} on the ports {}, without internal addresses", ports.join(", "));
    if ports.is_empty() {
        report.wrong_with("url_extract", "no port is allowed, so no page can be read; set url_extract.ports");
    } else {
        report.ok("url_extract", about);
    }
}

/// Requests a token, and the configured folder or one file.
async fn drive(settings: &Settings, offline: bool, report: &mut Report) {
    let part = "google_drive";
    let options = match built_ins::drive(&settings.google_drive) {
        Ok(Some(options)) => options,
        Ok(None) => return,
        Err(mistake) => return report.wrong_with(part, mistake),
    };
    if offline {
        return report.skipped(part, "not contacted: --offline");
    }
    match google_drive::try_out(options, Arc::new(SystemClock)).await {
        Ok(()) => report.ok(part, "the credentials are accepted"),
        Err(reason) => report.wrong_with(part, reason),
    }
}

/// Checks the rows of image models. None is called, because a picture costs money.
fn images(settings: &Settings, lookup: &Lookup, report: &mut Report) {
    match built_ins::image_models(settings, lookup) {
        Ok(rows) => {
            for row in rows {
                report.skipped(&format!("images {}", row.model), "not contacted: a picture costs money");
            }
        }
        Err(mistakes) => {
            for mistake in mistakes {
                report.wrong_with("images", mistake);
            }
        }
    }
}

/// Checks all search rows concurrently: one search each, unless something else shows that it works.
async fn searches(settings: &Settings, lookup: &Lookup, offline: bool, report: &mut Report) {
    let rows = match built_ins::searches(settings, lookup) {
        Ok(rows) => rows,
        Err(mistakes) => {
            for mistake in mistakes {
                report.wrong_with("web_search", mistake);
            }
            return;
        }
    };
    let part = |row: &web_search::Row| format!("web_search {}", row.provider.name);
    if offline {
        for row in &rows {
            report.skipped(&part(row), "not contacted: --offline");
        }
        return;
    }
    let tried = rows.into_iter().map(|row| async {
        let (part, begun) = (part(&row), Instant::now());
        (part, web_search::try_out(row).await, begun.elapsed().as_millis())
    });
    for (part, outcome, ms) in join_all(tried).await {
        match outcome {
            Ok(Trial::Found(0)) => {
                report.push(&part, CheckStatus::Note, format!("the test search had no results, {ms} ms"));
            }
            Ok(Trial::Found(_)) => report.ok(&part, format!("it answers, {ms} ms")),
            Ok(Trial::LetsIn) => report.ok(&part, format!("the key is accepted, {ms} ms; no search was made")),
            Err(reason) => report.wrong_with(&part, reason),
        }
    }
}
