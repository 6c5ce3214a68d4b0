//! The configuration in force, for edges that serve programs.

use std::sync::Arc;

use crate::services::running::Live;
use domain::api_key::ApiKey;
use domain::webhook::Webhook;
use ports::{Clock, Keys, Models, ModelsInForce, Webhooks};

/// Reads the running configuration on each request.
pub struct InForce {
    /// The running configuration.
    pub live: Live,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
}

impl Keys for InForce {
    fn are_unused(&self) -> bool {
        self.live.now().keys.is_unused()
    }

    fn holder(&self, presented: &str) -> Option<Arc<ApiKey>> {
        self.live.now().keys.find(presented, self.clock.now())
    }

    fn still_opens(&self, key: &ApiKey) -> bool {
        self.live.now().keys.still_opens(key, self.clock.now())
    }
}

impl Webhooks for InForce {
    fn webhook(&self, name: &str) -> Option<Arc<Webhook>> {
        self.live.now().triggers.hooks.get(name).cloned()
    }
}

impl ModelsInForce for InForce {
    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.live.now().models)
    }
}
