//! `staffai audit`: the audit of tools as lines of JSON, from the running service or, when none runs, from the store itself.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use secrecy::ExposeSecret;

use super::commands::{self, Reading};
use super::system::SystemClock;
use super::{Cli, STORE_WITHIN, assemble, chat, exit};
use crate::actors::audit;
use crate::config::Loaded;
use crate::domain::audit::Wanted;
use crate::domain::ids::{self, Timestamp};
use crate::ports::Clock;
use crate::store::embedded::FILE;

/// How long the running service may take to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// Which lines are printed.
#[derive(Debug, Clone, Args)]
pub(super) struct Of {
    /// Those of this time until now, such as `24h` or `7d`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    since: Option<Duration>,
    /// Those of tools whose names fit, such as `fm__*`.
    #[arg(long, value_name = "PATTERN")]
    tool: Option<String>,
    /// Those of a member: an id, or `discord:` and an id.
    #[arg(long, value_name = "ID")]
    member: Option<String>,
}

/// Prints them.
pub(super) async fn run(cli: &Cli, of: &Of) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let since = of.since.map(|since| Timestamp(SystemClock.now().0.saturating_sub(ids::millis(since))));
    let wanted = Wanted { since, tool: of.tool.clone(), member: of.member.clone() };
    let runs = commands::ask_health(loaded.settings.http.addr).await.is_ok();
    let lines = if runs { of_service(&loaded, &wanted).await } else { of_store(&loaded, &wanted).await };
    match lines {
        Ok(text) => {
            // A reader that went away, as `head` does, ends nothing.
            let _ = std::io::stdout().write_all(text.as_bytes());
            exit::FINE
        }
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

async fn of_service(loaded: &Loaded, wanted: &Wanted) -> Result<String, (String, u8)> {
    let address = commands::reachable(loaded.settings.http.addr);
    let failed = |why: String| (format!("the service at http://{address}/ gave no audit: {why}"), exit::NEGATIVE);
    let key = loaded.settings.http.api_keys.first();
    if key.is_some() && !chat::is_own(address.ip()) {
        return Err(failed("it is on another machine, and the key would go there unencrypted".to_owned()));
    }
    let client = reqwest::Client::builder().timeout(ANSWERED_WITHIN).no_proxy().build();
    let client = client.map_err(|error| failed(error.to_string()))?;
    let since = wanted.since.map(|since| since.0.to_string());
    let asked = [("since", &since), ("tool", &wanted.tool), ("member", &wanted.member)];
    let asked: Vec<(&str, &String)> = asked.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))).collect();
    let mut url =
        reqwest::Url::parse(&format!("http://{address}/api/v1/audit")).map_err(|error| failed(error.to_string()))?;
    url.query_pairs_mut().extend_pairs(asked);
    let mut request = client.get(url);
    if let Some(key) = key {
        request = request.bearer_auth(key.expose_secret());
    }
    let answer = request.send().await.map_err(|error| failed(error.to_string()))?;
    if matches!(answer.status(), reqwest::StatusCode::UNAUTHORIZED | reqwest::StatusCode::FORBIDDEN) {
        return Err(failed("it needs a key that may operate; set STAFFAI_API_KEYS to one".to_owned()));
    }
    let answer = answer.error_for_status().map_err(|error| failed(error.to_string()))?;
    answer.text().await.map_err(|error| failed(error.to_string()))
}

async fn of_store(loaded: &Loaded, wanted: &Wanted) -> Result<String, (String, u8)> {
    let dir = &loaded.settings.store.dir;
    // To make the folder here could give it to the wrong owner.
    if loaded.settings.redis.address().is_none() && !dir.join(FILE).exists() {
        return Err((format!("nothing is kept in {} yet, and no service answers", dir.display()), exit::NEGATIVE));
    }
    let store = assemble::store(&loaded.settings, &(Arc::new(SystemClock) as _), None).await;
    let store = store.map_err(|error| (error.to_string(), exit::IN_USE))?;
    let lines = audit::lines(&*store, wanted).await;
    store.close(STORE_WITHIN).await;
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}
