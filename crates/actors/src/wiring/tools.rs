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
            live: self.parts.basics.live.clone(),
            servers: Arc::clone(&self.parts.tools.servers),
            cache: self.handles.tool_cache.clone(),
            dice: Arc::clone(&self.parts.basics.dice),
            published: Published {
                board: Arc::clone(&self.parts.observation.instruments.board),
                tooling: Arc::clone(&self.parts.observation.instruments.tooling),
                observers: self.turn_parts.readers.observers.clone(),
            },
            starts: Starts::default(),
        }
    }

    pub(super) fn tool_cache(&self) -> ToolCache {
        ToolCache {
            toolbox: Arc::clone(&self.parts.tools.toolbox),
            built_in: self.parts.tools.built_in.clone(),
            store: Arc::clone(&self.parts.basics.store),
            tools: self.handles.tools.clone(),
            tooling: Arc::clone(&self.parts.observation.instruments.tooling),
            clock: Arc::clone(&self.parts.basics.clock),
            remembered: self.remembered.clone(),
        }
    }

    pub(super) fn approvals(&self) -> Approvals {
        Approvals {
            store: Arc::clone(&self.parts.basics.store),
            clock: Arc::clone(&self.parts.basics.clock),
            journal: self.handles.journal.clone(),
            ways: self.ways(),
            toolbox: Arc::clone(&self.turn_parts.tools.toolbox),
            allowances: Arc::clone(&self.turn_parts.tools.allowances),
            audit: Arc::clone(&self.parts.records.audit),
            fenced: self.parts.records.turns.fenced(),
            ranges: self.parts.process.ranges.clone(),
        }
    }

    pub(super) fn providers(&self, providers: &Arc<dyn ToolProviders>) -> Providers {
        let tools = self.handles.tools.clone();
        Providers { source: Arc::clone(providers), tools, dice: Arc::clone(&self.parts.basics.dice) }
    }
}
