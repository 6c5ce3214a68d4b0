//! The actors of the branch of tools.

use std::sync::Arc;

use super::{Wiring, template};
use crate::approvals::Approvals;
use crate::mcp::{Published, Starts};
use crate::providers::Providers;
use crate::tool_cache::ToolCache;
use crate::tools::Tools;
use crate::tree::TreeRow;
use ports::ToolProviders;

impl Wiring {
    pub(super) fn tools(&self, row: &'static TreeRow) -> Tools {
        Tools {
            template: template(row),
            live: self.parts.live.clone(),
            servers: Arc::clone(&self.parts.servers),
            cache: self.handles.tool_cache.clone(),
            dice: Arc::clone(&self.parts.dice),
            published: Published {
                board: Arc::clone(&self.parts.board),
                tooling: Arc::clone(&self.parts.tooling),
                account: self.turn_parts.account.clone(),
            },
            starts: Starts::default(),
        }
    }

    pub(super) fn tool_cache(&self) -> ToolCache {
        ToolCache {
            toolbox: Arc::clone(&self.parts.toolbox),
            built_in: self.parts.built_in.clone(),
            store: Arc::clone(&self.parts.store),
            tools: self.handles.tools.clone(),
            tooling: Arc::clone(&self.parts.tooling),
        }
    }

    pub(super) fn approvals(&self) -> Approvals {
        Approvals {
            store: Arc::clone(&self.parts.store),
            clock: Arc::clone(&self.parts.clock),
            journal: self.handles.journal.clone(),
            ways: self.ways(),
            allowances: Arc::clone(&self.turn_parts.allowances),
            audit: Arc::clone(&self.parts.audit),
            fenced: self.parts.turns.fenced(),
        }
    }

    pub(super) fn providers(&self, providers: &Arc<dyn ToolProviders>) -> Providers {
        let tools = self.handles.tools.clone();
        Providers { source: Arc::clone(providers), tools, dice: Arc::clone(&self.parts.dice) }
    }
}
