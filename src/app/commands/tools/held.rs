//! The tools that a bot of this configuration holds back because they differ from the accepted ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::app::commands::own_service;
use crate::app::servers::Tried;
use crate::app::system::SystemClock;
use domain::keys;
use domain::tool::ServerName;
use domain::tool::catalogue::Pin;
use domain::tool::server::{ServerRecord, review};
use settings::Settings;
use settings::stores::StoreChoice;
use store::embedded::FILE;
use store::embedded::opener::Opener;
use store::{Backend, BackendError, OpenError, redis};

/// The names of tools that are held back, by server.
pub(crate) type Held = BTreeMap<ServerName, Vec<String>>;

/// Compares the tools of servers with the accepted ones in the store. If a running bot holds the store, the bot is
/// asked.
///
/// # Errors
/// The reason why the result is unknown.
pub(crate) async fn held(settings: &Settings, servers: &[Tried]) -> Result<Held, String> {
    let dir = match settings.chosen_store() {
        StoreChoice::Redis(address) => {
            let opener = redis::opener::Opener::new(&address)?;
            return compared(opener.open().map_err(|error| error.to_string())?, servers).await;
        }
        StoreChoice::Embedded(dir) => dir.to_owned(),
    };
    if !dir.join(FILE).exists() {
        return Ok(Held::default());
    }
    let opener = Opener::new(dir, Arc::new(SystemClock));
    match tokio::task::spawn_blocking(move || opener.open()).await.map_err(|error| error.to_string())? {
        Ok(store) => compared(store, servers).await,
        Err(OpenError::InUse(_)) => {
            let tooling = own_service::ask_tooling(settings).await?;
            Ok(tooling.servers.into_iter().map(|server| (ServerName::new(server.name), server.changed)).collect())
        }
        Err(OpenError::Failed(error) | OpenError::Later(error)) => Err(error),
    }
}

async fn compared(store: impl Backend, servers: &[Tried]) -> Result<Held, String> {
    let mut held = Held::new();
    for Tried { entry, outcome, .. } in servers {
        let Ok((_, listing)) = outcome else { continue };
        let told = |error: BackendError| error.to_string();
        // The record of a trusted server does not matter.
        let stored = store.get(&keys::tools(&entry.name)).await.map_err(told)?.filter(|_| !entry.trusted);
        if let Some(stored) = stored {
            let mut pins = match ServerRecord::parse(&stored, &entry.fingerprint()) {
                Ok(Some(record)) => Some(record.pins),
                Ok(None) => continue,
                Err(_) => None,
            };
            let now = listing.tools.iter().map(|tool| (&*tool.name, Pin::of(tool)));
            let changed = review(&mut pins, now, false);
            held.insert(entry.name.clone(), changed.into_iter().map(str::to_owned).collect());
        }
    }
    store.close().await;
    Ok(held)
}
