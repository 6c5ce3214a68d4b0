//! The stored records of tool servers: the times of discovery, and the tools that a bot of this configuration holds back
//! because they differ from the accepted ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::app::commands::own_service;
use crate::app::servers::Tried;
use crate::app::system::SystemClock;
use domain::ids::Timestamp;
use domain::keys;
use domain::tool::ServerName;
use domain::tool::catalogue::Pin;
use domain::tool::server::{ServerRecord, ToolServer, review};
use settings::Settings;
use settings::stores::StoreChoice;
use store::embedded::FILE;
use store::embedded::opener::Opener;
use store::{Backend, BackendError, OpenError, redis};

/// The records of servers, by name.
pub(crate) type Records = BTreeMap<ServerName, StoredRecord>;

/// The record of one server.
#[derive(Default)]
pub(crate) struct StoredRecord {
    /// The names of the tools that are held back.
    pub held: Vec<String>,
    /// The time at which each tool was first listed for the bot.
    pub first_seen: BTreeMap<String, Timestamp>,
    /// The time at which the bot last read the list.
    pub verified: Option<Timestamp>,
}

impl From<ToolServer> for StoredRecord {
    fn from(server: ToolServer) -> Self {
        let first_seen = server.discovered.into_iter().filter_map(|tool| Some((tool.name, tool.first_seen_at?)));
        Self { held: server.changed, first_seen: first_seen.collect(), verified: server.verified_at }
    }
}

/// Reads the records, and compares the tools of servers with the accepted ones in the store. If a running bot holds the store, the bot is
/// asked.
///
/// # Errors
/// The reason why the result is unknown.
pub(crate) async fn records(settings: &Settings, servers: &[Tried]) -> Result<Records, String> {
    let dir = match settings.chosen_store() {
        StoreChoice::Redis(address) => {
            let opener = redis::opener::Opener::new(&address)?;
            return compared(opener.open().map_err(|error| error.to_string())?, servers).await;
        }
        StoreChoice::Embedded(dir) => dir.to_owned(),
    };
    if !dir.join(FILE).exists() {
        return Ok(Records::default());
    }
    let opener = Opener::new(dir, Arc::new(SystemClock));
    match tokio::task::spawn_blocking(move || opener.open()).await.map_err(|error| error.to_string())? {
        Ok(store) => compared(store, servers).await,
        Err(OpenError::InUse(_)) => {
            let tooling = own_service::ask_tooling(settings).await?;
            Ok(tooling
                .servers
                .into_iter()
                .map(|server| (ServerName::new(server.name.clone()), server.into()))
                .collect())
        }
        Err(OpenError::Failed(error) | OpenError::Later(error)) => Err(error),
    }
}

async fn compared(store: impl Backend, servers: &[Tried]) -> Result<Records, String> {
    let mut records = Records::new();
    for Tried { entry, outcome, .. } in servers {
        let Ok((_, listing)) = outcome else { continue };
        let told = |error: BackendError| error.to_string();
        let Some(stored) = store.get(&keys::tools(&entry.name)).await.map_err(told)? else { continue };
        let (mut pins, first_seen, verified) = match ServerRecord::parse(&stored, &entry.fingerprint()) {
            Ok(Some(record)) => (Some(record.pins), record.first_seen, record.verified),
            Ok(None) => continue,
            Err(_) => (None, BTreeMap::new(), None),
        };
        let now = listing.tools.iter().map(|tool| (&*tool.name, Pin::of(tool)));
        // Nothing of a trusted server is held back.
        let held = if entry.trusted { Vec::new() } else { review(&mut pins, now, false) };
        let held = held.into_iter().map(str::to_owned).collect();
        records.insert(entry.name.clone(), StoredRecord { held, first_seen, verified });
    }
    store.close().await;
    Ok(records)
}
