//! `staffai audit`: prints the audit log of tools as JSON lines, from the running service or, if none runs, from the
//! store.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use crate::app::commands::operating::{self, Failed};
use crate::app::commands::reading::Reading;
use crate::app::drain::STORE_TIMEOUT;
use crate::app::system::SystemClock;
use crate::app::{Cli, exit};
use actors::observation::audit;
use domain::audit::AuditFilter;
use domain::ids::{self, Timestamp};
use ports::Clock;
use settings::Loaded;

/// The filters of the printed lines.
#[derive(Debug, Clone, Args)]
pub(crate) struct Of {
    /// Only lines that are not older than this, such as `24h` or `7d`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    since: Option<Duration>,
    /// Only lines of tools whose names match, such as `fm__*`.
    #[arg(long, value_name = "PATTERN")]
    tool: Option<String>,
    /// Only lines of a member: an id, or `discord:` and an id.
    #[arg(long, value_name = "ID")]
    member: Option<String>,
}

/// Prints the lines.
pub(crate) async fn run(cli: &Cli, of: &Of) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let since = of.since.map(|since| Timestamp(SystemClock.now().0.saturating_sub(ids::millis(since))));
    let wanted = AuditFilter { since, tool: of.tool.clone(), member: of.member.clone() };
    let runs = operating::service_runs(&loaded).await;
    let lines = if runs { of_service(&loaded, &wanted).await } else { of_store(&loaded, &wanted).await };
    match lines {
        Ok(text) => {
            // A closed reader, such as `head`, does not end the program.
            let _ = std::io::stdout().write_all(text.as_bytes());
            exit::FINE
        }
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

async fn of_service(loaded: &Loaded, wanted: &AuditFilter) -> Result<String, Failed> {
    let since = wanted.since.map(|since| since.0.to_string());
    let asked = [("since", &since), ("tool", &wanted.tool), ("member", &wanted.member)];
    let asked: Vec<(&str, &str)> = asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    operating::ask_service(loaded, "audit", "/api/v1/audit", &asked).await?.text().await
}

async fn of_store(loaded: &Loaded, wanted: &AuditFilter) -> Result<String, Failed> {
    let store = operating::open_store(&loaded.settings).await?;
    let lines = audit::lines(&*store, wanted).await;
    store.close(STORE_TIMEOUT).await;
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}
