//! `staffai migrate [redis|embedded]`: moves all stored data from the embedded store to Redis, or back.
//!
//! - The source is only read. The destination must be empty. It has all data, or a mark with which every version refuses
//!   it.
//! - No bot becomes active on either store meanwhile: the embedded store is locked, and Redis' lease is held.
//! - Files of the data directory (keys, changed rows, logins) stay where they are: they belong to both stores.

use std::sync::Arc;

use clap::ValueEnum;
use secrecy::SecretString;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::backup::pass;
use super::operating::{self, Failed};
use super::reading::Reading;
use crate::app::drain::STORE_TIMEOUT;
use crate::app::system::{SystemClock, SystemDice};
use crate::app::{Cli, exit};
use crate::app::{assemble, opening};
use ports::{Clock, Store};
use settings::Settings;
use settings::stores::StoreChoice;
use store::redis::lease::{Lease, LeaseAnswer, LeaseFault, RENEW_EVERY};

/// The name of the copy in errors. The file itself is in the data directory and has no name.
const COPY: &str = "migration.copy";

/// The store that receives the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Destination {
    /// Redis or Valkey at `REDIS_URL` (or `REDIS_HOST`).
    Redis,
    /// The embedded store in `STAFFAI_DATA_DIR`.
    Embedded,
}

/// Both stores of a migration, as the settings that choose each.
struct Stores {
    embedded: Settings,
    shared: Settings,
    address: SecretString,
}

/// Copies all data to the destination. Without a destination, to the store that is empty if only one has data.
pub(crate) async fn run(cli: &Cli, to: Option<Destination>) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    operating::ended(match Stores::of(&loaded.settings) {
        Err(failed) => Err(failed),
        Ok(_) if operating::service_runs(&loaded).await => {
            Err(("the service runs; stop it, so that its data does not change".to_owned(), exit::IN_USE))
        }
        Ok(stores) => stores.migrate(to).await,
    })
}

impl Stores {
    fn of(settings: &Settings) -> Result<Self, Failed> {
        let StoreChoice::Redis(address) = settings.chosen_store() else {
            let fix = "set REDIS_URL (or REDIS_HOST) to the server that takes or has the data";
            return Err((format!("no Redis is configured; {fix}"), exit::USAGE));
        };
        let mut embedded = settings.clone();
        (embedded.redis.url, embedded.redis.host) = (None, None);
        Ok(Self { embedded, shared: settings.clone(), address })
    }

    /// Copies all data while no bot can be active on the server. Returns a sentence about the result.
    async fn migrate(&self, to: Option<Destination>) -> Result<String, Failed> {
        let redis = opening::redis(&self.address).map_err(|error| (error.to_string(), exit::USAGE))?;
        let lease = Arc::new(Lease::new(redis, assemble::process_name(&SystemDice)));
        take(&lease).await?;
        // A task of its own: reading a long copy takes longer than a term.
        let renewing = Arc::clone(&lease);
        let mut lost = AbortOnDropHandle::new(tokio::spawn(async move { lost(&renewing).await }));
        let done = tokio::select! {
            done = self.copy(to) => done,
            lost = &mut lost => Err(lost.unwrap_or_else(|_| ("the renewal of the lease broke".to_owned(), exit::NEGATIVE))),
        };
        drop(lost);
        // The term ends by itself if the server does not answer.
        let _ = lease.release().await;
        done
    }

    /// Copies all data between the stores, which are open meanwhile.
    async fn copy(&self, to: Option<Destination>) -> Result<String, Failed> {
        let (embedded, shared) = (open(&self.embedded).await?, open(&self.shared).await?);
        let moved = self.copy_open(to, &embedded, &shared).await;
        let (embedded, shared) = tokio::join!(embedded.close(STORE_TIMEOUT), shared.close(STORE_TIMEOUT));
        match moved {
            Ok(_) if !(embedded && shared) => {
                Err(("some data could not be written; empty the store and try again".to_owned(), exit::NEGATIVE))
            }
            other => other,
        }
    }

    async fn copy_open(
        &self,
        to: Option<Destination>,
        embedded: &Arc<dyn Store>,
        shared: &Arc<dyn Store>,
    ) -> Result<String, Failed> {
        let to = destination(to, is_empty(embedded).await?, is_empty(shared).await?)?;
        let copy = self.embedded.store.dir.join(COPY);
        let (from, into, settings, next) = match to {
            Destination::Redis => (embedded, shared, &self.shared, "start the bot with the same REDIS_URL"),
            Destination::Embedded => {
                (shared, embedded, &self.embedded, "start the bot without REDIS_URL and REDIS_HOST")
            }
        };
        let told = pass(from, into, settings, &copy).await?;
        Ok(format!("{told}; {next}. The data of the other store stays until you delete it"))
    }
}

async fn open(settings: &Settings) -> Result<Arc<dyn Store>, Failed> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = opening::open_store(settings, &clock, None).await;
    opened.map(|opened| opened.store).map_err(|error| (error.to_string(), exit::IN_USE))
}

async fn is_empty(store: &Arc<dyn Store>) -> Result<bool, Failed> {
    let away = || ("the store cannot be reached; staffai check says why".to_owned(), exit::NEGATIVE);
    store.scan("", 1).await.whole().map(|rows| rows.is_empty()).ok_or_else(away)
}

/// Returns the store that receives the data: the named one, else the one that is empty.
fn destination(to: Option<Destination>, embedded_empty: bool, shared_empty: bool) -> Result<Destination, Failed> {
    let refused = |why: &str| Err((why.to_owned(), exit::NEGATIVE));
    match (to, embedded_empty, shared_empty) {
        (_, true, true) => refused("both stores are empty: there is nothing to copy"),
        (None | Some(Destination::Redis), false, true) => Ok(Destination::Redis),
        (None | Some(Destination::Embedded), true, false) => Ok(Destination::Embedded),
        (None, false, false) => refused("both stores have data; empty the one that is out of date"),
        (Some(_), ..) => refused("the store that receives the data is not empty; empty it, or name the other one"),
    }
}

/// Takes the lease, so that no bot becomes active.
async fn take(lease: &Lease) -> Result<(), Failed> {
    match lease.take(false).await {
        Ok(LeaseAnswer::Held { .. }) => Ok(()),
        Err(LeaseFault::Refused(why)) => {
            eprintln!("warning: {why}; make sure that no bot runs on this server");
            Ok(())
        }
        Ok(LeaseAnswer::Elsewhere(holder)) => {
            Err((format!("{holder} is active on this server; stop it, and those that stand by"), exit::IN_USE))
        }
        Err(LeaseFault::Away(why)) => Err((format!("{why}; start Redis or correct REDIS_URL"), exit::NEGATIVE)),
    }
}

/// Renews the lease. Resolves with the error if another process has it.
async fn lost(lease: &Lease) -> Failed {
    loop {
        sleep(RENEW_EVERY).await;
        if let Ok(LeaseAnswer::Elsewhere(holder)) = lease.take(false).await {
            let why = format!("{holder} became active meanwhile; stop it, empty the new store, and try again");
            return (why, exit::IN_USE);
        }
    }
}
