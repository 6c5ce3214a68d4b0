//! The tools that a person may use, for edges that serve programs.

use std::sync::Arc;

use async_trait::async_trait;

use crate::runtime::blocking::blocking;
use crate::services::running::Live;
use crate::services::toolbox::Toolbox;
use domain::ids::{Person, Place};
use domain::tool::access::Access;
use domain::tool::usable::{UsableTool, usable};
use ports::ToolsOf;

/// Reads the running configuration on each request.
pub struct UsableTools {
    /// The running configuration.
    pub live: Live,
    /// The available tools.
    pub toolbox: Arc<Toolbox>,
}

#[async_trait]
impl ToolsOf for UsableTools {
    async fn tools(&self, person: &Person, place: &Place) -> Vec<UsableTool> {
        let running = self.live.now();
        let settings = &running.settings.tools;
        if settings.max_rounds == 0 || settings.max_calls == 0 {
            return Vec::new();
        }
        let standing = running.standing(&place.door, person, &[]);
        let rules = Arc::clone(&running.tool_rules);
        let access = Arc::new(Access::new(rules, person.clone(), Vec::new(), place.clone(), None, standing));
        let set = self.toolbox.listed().await;
        let outlined = set.outlined(&access).await;
        // There can be thousands of tools.
        blocking(move || usable(&set.catalogue, &access, &outlined)).await
    }
}
