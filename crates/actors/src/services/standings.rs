//! The use and the remaining limits of members, for edges that serve programs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::messages::rate_limiter::{Asker, RateLimiterMsg};
use crate::runtime::handle::Handle;
use crate::services::ledger;
use crate::services::running::Live;
use domain::ids::{Person, Place};
use domain::overview::Usage;
use ports::{Clock, Store, UsageOf};

/// The timeout of a request to the limiter.
const LIMITER_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the use from the store and the limits from the limiter.
pub struct Standings {
    /// The running configuration, with the links of accounts.
    pub live: Live,
    /// The store with the usage counters.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The limiter.
    pub rate_limiter: Handle<RateLimiterMsg>,
}

#[async_trait]
impl UsageOf for Standings {
    async fn usage(&self, person: &Person, place: &Place) -> Usage {
        let guild = Some(person.door.as_str().to_owned());
        let linked = self.live.linked(person);
        let sums = ledger::sums(&*self.store, (person, &linked), guild.as_deref(), self.clock.now()).await;
        let (person, place) = (person.clone(), place.clone());
        let asker = Box::new(Asker { person, linked, guild, roles: Vec::new(), place, parent: None });
        let standing =
            self.rate_limiter.call(|reply| RateLimiterMsg::Usage { asker, reply }, LIMITER_TIMEOUT).await.ok();
        Usage { standing, sums }
    }
}
