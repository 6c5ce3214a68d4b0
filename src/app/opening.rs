//! Opening the store that the settings choose.

use std::sync::Arc;

use secrecy::SecretString;

use super::launch::StartError;
use ports::{Clock, Limiter, OwnedStore, Store, StoreFault};
use settings::Settings;
use settings::stores::StoreChoice;
use store::redis::Redis;
use store::resilient::Resilient;
use store::{Backend, OpenError, embedded, failing, redis};

/// Returns a connection to this server.
///
/// # Errors
/// The address is wrong.
pub(crate) fn redis(address: &SecretString) -> Result<Redis, StartError> {
    redis_opener(address)?.open().map_err(|error| StartError::InUse(error.to_string()))
}

fn redis_opener(address: &SecretString) -> Result<redis::opener::Opener, StartError> {
    redis::opener::Opener::new(address)
        .map_err(|mistake| StartError::Configuration(vec![format!("the address of redis {mistake}")]))
}

/// An open store, once for each port that it implements.
pub(crate) struct Opened {
    /// Stores text by key.
    pub store: Arc<dyn Store>,
    /// Stores the ownership of turns.
    pub owned: Arc<dyn OwnedStore>,
    /// Stores the counts of limits.
    pub limiter: Arc<dyn Limiter>,
}

impl<B: Backend> From<Resilient<B>> for Opened {
    fn from(store: Resilient<B>) -> Self {
        let store = Arc::new(store);
        Self { limiter: Arc::clone(&store) as _, owned: Arc::clone(&store) as _, store }
    }
}

/// Opens Redis if an address is configured, else the file in the data directory. A start succeeds while the server is
/// down.
///
/// # Errors
/// The address is wrong, another process holds the file, or only a later version reads the data.
pub(crate) async fn open_store(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    fault: Option<StoreFault>,
) -> Result<Opened, StartError> {
    let in_use = |error: OpenError| match error {
        OpenError::Later(refused) => StartError::Configuration(vec![refused]),
        OpenError::InUse(reason) | OpenError::Failed(reason) => StartError::InUse(reason),
    };
    match (settings.chosen_store(), fault) {
        (StoreChoice::Redis(address), _) => {
            let opener = redis_opener(&address)?;
            let store = Resilient::start_with(move || opener.open(), Arc::clone(clock), redis::bounds()).await;
            Ok(store.map_err(in_use)?.into())
        }
        (StoreChoice::Embedded(dir), Some(fault)) => {
            let opener = embedded::opener::Opener::new(dir.to_owned(), Arc::clone(clock));
            let store = Resilient::start(move || failing::open(&fault, || opener.open()), Arc::clone(clock)).await;
            Ok(store.map_err(in_use)?.into())
        }
        (StoreChoice::Embedded(dir), None) => {
            let opener = embedded::opener::Opener::new(dir.to_owned(), Arc::clone(clock));
            let store = Resilient::start(move || opener.open(), Arc::clone(clock)).await;
            Ok(store.map_err(in_use)?.into())
        }
    }
}
