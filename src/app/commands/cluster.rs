//! `staffai cluster`: the processes that share this store, the ranges of a divided bot, and the fencing tokens of its
//! doors.

use std::fmt::Write as _;
use std::sync::Arc;

use super::operating::{self, Failed};
use super::reading::Reading;
use crate::app::drain::STORE_TIMEOUT;
use crate::app::{Cli, exit, opening, standby};
use domain::keys::TERM_PREFIX;
use domain::notice::template::moment;
use ports::Store;
use ports::processes::{Cluster, HeldRange, ProcessDetails, ProcessReport};
use settings::Settings;
use store::redis::lease::{Lease, LeaseFault};

/// The most doors that are printed.
const SHOWN_MAX: usize = 1_000;

/// Prints the processes and the doors.
pub(crate) async fn run(cli: &Cli) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    operating::ended(overview(&loaded.settings).await)
}

async fn overview(settings: &Settings) -> Result<String, Failed> {
    let Some(address) = settings.chosen_store().address() else {
        return Ok("the embedded store serves one process; with REDIS_URL, several processes share a store".to_owned());
    };
    let redis = opening::redis(&address).map_err(|error| (error.to_string(), exit::USAGE))?;
    let lease = Lease::new(redis, String::new());
    let away = |fault: LeaseFault| (fault.to_string(), exit::NEGATIVE);
    let (holder, ranges) = (lease.holder().await.map_err(away)?, lease.ranges().await.map_err(away)?);
    let store = operating::open_store(settings).await?;
    let text = table(&store, holder.as_deref(), ranges).await;
    store.close(STORE_TIMEOUT).await;
    text.ok_or_else(|| ("the store cannot be reached; staffai check says why".to_owned(), exit::NEGATIVE))
}

/// Returns the table; `None` if the store does not answer. `holder` has the lease, or the holders of its `ranges`.
async fn table(store: &Arc<dyn Store>, holder: Option<&str>, ranges: Vec<HeldRange>) -> Option<String> {
    let Cluster { processes, ranges } = standby::cluster(&**store, holder, ranges).await?;
    let terms = store.scan(TERM_PREFIX, SHOWN_MAX).await.whole()?;
    let mut text = format!("processes: {}", processes.len());
    for ProcessReport { name, state, details } in &processes {
        let report = match details {
            Some(ProcessDetails { version, since, address, lag, .. }) => {
                let late = if lag.is_zero() { String::new() } else { format!(", lag {} ms", lag.as_millis()) };
                format!("{state:<8}version {version}, since {}, http://{address}/{late}", moment(*since))
            }
            None => "reports in a form of another version".to_owned(),
        };
        // Writing into a string cannot fail.
        let _ = write!(text, "\n  {name}  {report}");
    }
    text.push_str(&of_ranges(&ranges));
    let _ = write!(text, "\nnewest fencing tokens of doors: {}", terms.len());
    for (key, token) in &terms {
        let _ = write!(text, "\n  {:<15} {token}", key.strip_prefix(TERM_PREFIX).unwrap_or(key));
    }
    Some(text)
}

/// Returns a line for each range of a divided bot.
fn of_ranges(ranges: &[HeldRange]) -> String {
    let mut text = String::new();
    if ranges.is_empty() {
        return text;
    }
    let free = ranges.iter().filter(|range| range.holder.is_none()).count();
    // Writing into a string cannot fail.
    let _ = write!(text, "\nranges: {}, without a process: {free}", ranges.len());
    for HeldRange { portion, holder, age, moves } in ranges {
        let _ = match holder {
            Some(holder) => write!(text, "\n  {portion}  {holder}, for {} s, moves: {moves}", age.as_secs()),
            None => write!(text, "\n  {portion}  no process"),
        };
    }
    text
}
