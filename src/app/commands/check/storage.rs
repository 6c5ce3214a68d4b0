//! Checks the store.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::timeout;

use super::report::{CheckStatus, Report};
use crate::app::commands::own_service;
use crate::app::system::SystemClock;
use domain::keys;
use domain::limits::{LimitStep, Limits, Member, Request};
use ports::{Keeping, Write};
use settings::Settings;
use settings::stores::StoreChoice;
use store::embedded::FILE;
use store::embedded::opener::Opener;
use store::{AccountsKnown, Backend, BackendError, OpenError, redis};

const STORE: &str = "store";

/// The fix for a directory that cannot be written.
const DIR_FIX: &str = "change its owner to the user of the bot, or set STAFFAI_DATA_DIR to a directory of that user";

/// The number of keys that are read: with three servers of equally many keys, the chance that one gets none is one in
/// millions.
const PROBES: u32 = 40;

/// The timeout of connecting to Redis and of these requests together.
const REDIS_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads from Redis, or opens the embedded store, or tests if it could be created.
pub async fn check(settings: &Settings, offline: bool, report: &mut Report) {
    let dir = match settings.chosen_store() {
        StoreChoice::Redis(_) if offline => return report.skipped(STORE, "redis; not contacted: --offline"),
        StoreChoice::Redis(address) => return server(&address, report).await,
        StoreChoice::Embedded(dir) => dir,
    };
    // Creating the folder here could give it the wrong owner: the user of the check is often not the user of the
    // service.
    if !dir.join(FILE).exists() {
        return match could_make(dir) {
            Ok(()) => report.ok(
                STORE,
                format!("embedded; the folder {} has no store yet; the first start creates one", dir.display()),
            ),
            Err(error) => {
                let dir = dir.display();
                report.wrong_with(STORE, format!("{dir} is not writable ({error}); {DIR_FIX}"));
            }
        };
    }
    let opener = Opener::new(dir.to_owned(), Arc::new(SystemClock));
    let opened = tokio::task::spawn_blocking(move || opener.open()).await;
    match opened {
        Ok(Ok(store)) => {
            match store.get(keys::PROBE).await {
                Ok(_) => report.ok(STORE, format!("embedded; {} can be read", dir.display())),
                Err(error) => report.wrong_with(STORE, error.to_string()),
            }
            store.close().await;
        }
        Ok(Err(OpenError::InUse(error))) if offline => report.push(STORE, CheckStatus::Note, error),
        Ok(Err(OpenError::InUse(error))) => match own_service::ask_health(settings.http.addr).await {
            Ok(()) => report.ok(STORE, format!("embedded; {} is in use by the running service", dir.display())),
            Err(_) => report.wrong_with(STORE, error),
        },
        Ok(Err(OpenError::Failed(error) | OpenError::Later(error))) => report.wrong_with(STORE, error),
        Err(error) => report.wrong_with(STORE, format!("it cannot be opened: {error}")),
    }
}

/// Connects to Redis or Valkey, with login, encryption and database.
async fn server(address: &SecretString, report: &mut Report) {
    let store = match redis::opener::Opener::new(address) {
        Ok(opener) => opener.open().map_err(|error| error.to_string()),
        Err(mistake) => Err(format!("the address of redis {mistake}")),
    };
    let store = match store {
        Ok(store) => store,
        Err(error) => return report.wrong_with(STORE, error),
    };
    match timeout(REDIS_TIMEOUT, requests(&store)).await {
        Ok(Ok(())) => {
            report.ok(STORE, "redis; reads, writes and limit decisions work");
            keeping(&store, report).await;
        }
        Ok(Err(error)) => report.wrong_with(STORE, format!("{error}; {REDIS_FIX}")),
        Err(_) => {
            let within = REDIS_TIMEOUT.as_secs();
            report.wrong_with(STORE, format!("redis did not answer within {within} s; {REDIS_FIX}"));
        }
    }
    store.close().await;
}

/// The fix for an unavailable server.
const REDIS_FIX: &str = "start Redis or correct REDIS_URL (or REDIS_HOST); until it answers, the bot keeps state in memory only; \
                         without both, state is kept in the data directory";

/// Reports the data loss and the broken promises caused by the server's settings.
async fn keeping(store: &impl Backend, report: &mut Report) {
    const SETTINGS: &str = "store settings";
    let Ok(Some(keeping)) = timeout(REDIS_TIMEOUT, store.keeping()).await else {
        let about = "redis denies CONFIG GET; set appendonly yes and maxmemory-policy noeviction there";
        return report.push(SETTINGS, CheckStatus::Note, about);
    };
    if keeping == Keeping::default() {
        report.ok(SETTINGS, "redis loses no acknowledged write and evicts nothing");
    }
    if let Some(loses) = keeping.loses {
        report.push(SETTINGS, CheckStatus::Note, loses);
    }
    if let Some(breaks) = keeping.breaks {
        report.wrong_with(SETTINGS, breaks);
    }
}

/// Sends each kind of request of the service once, for keys that never exist: nothing changes. The keys cover all
/// servers of a cluster, which shows if only one of their addresses is reachable.
///
/// # Errors
/// The first refused request, by name.
async fn requests(store: &impl Backend) -> Result<(), BackendError> {
    for number in 0..PROBES {
        store.get(&format!("{}:{number}", keys::PROBE)).await?;
    }
    store.apply(vec![Write::Delete { key: keys::PROBE.to_owned() }].into()).await?;
    let limits = Limits { messages: 1, tokens: 1 };
    let request = Request::of_member(Member::new("probe"), Duration::from_secs(1), LimitStep::Read(limits));
    store.decide_limit(&request, &AccountsKnown::default()).await?;
    Ok(())
}

/// Returns `Ok` if a file could be created in this folder, or in its nearest existing parent.
fn could_make(dir: &Path) -> io::Result<()> {
    let mut nearest = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    while !nearest.try_exists()? {
        nearest = match nearest.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
    }
    let probe = nearest.join(format!(".staffai-check-{}", std::process::id()));
    std::fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
    std::fs::remove_file(&probe)
}
