//! The tools that there are now, as turns use them: one immutable snapshot, replaced as a whole when a source changes. A turn keeps
//! the snapshot that it began with, so what its model was offered is what its calls are checked against.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::messages::server_line::ServerLine;
use crate::domain::tool::access::Access;
use crate::domain::tool::catalogue::{Catalogue, Entry};
use crate::domain::tool::selection::Index;
use crate::domain::tool::view::View;
use crate::domain::tool::{CallError, CallErrorKind, Source, ToolRequest, ToolResult};
use crate::ports::{ProgressSink, ToolServer};

/// The current snapshot. Lives outside the actors: it outlives their restarts.
#[derive(Default)]
pub struct Toolbox(watch::Sender<Arc<Toolset>>);

impl Toolbox {
    /// The tools as they are now.
    #[must_use]
    pub fn now(&self) -> Arc<Toolset> {
        Arc::clone(&self.0.borrow())
    }

    /// Replaces the snapshot. What runs goes on with the one that it has.
    pub fn publish(&self, tools: Toolset) {
        self.0.send_replace(Arc::new(tools));
    }

    /// Waits until there is a tool of this name in calls. The caller bounds the wait.
    pub async fn offers(&self, tool: &str) {
        let mut snapshots = self.0.subscribe();
        // The sender lives as long as this borrows it.
        let _ = snapshots.wait_for(|tools| tools.catalogue.get(tool).is_some()).await;
    }
}

/// One snapshot.
#[derive(Default)]
pub struct Toolset {
    /// All tools by the names that models call them by.
    pub catalogue: Arc<Catalogue>,
    /// Finds tools by words.
    pub index: Arc<Index>,
    /// The way to each source.
    callers: HashMap<Source, Caller>,
    /// What callers see, by the patterns that hide tools from them.
    views: Mutex<HashMap<Arc<[String]>, Arc<View>>>,
}

/// The most kinds of callers whose views are kept; rules that tell more of them apart have views made anew.
const VIEWS_MAX: usize = 64;

/// The way to the tools of one source.
#[derive(Clone)]
pub enum Caller {
    /// It is at hand.
    Direct(Arc<dyn ToolServer>),
    /// Through the actor of its server.
    Server(ServerLine),
}

impl Toolset {
    /// A snapshot of this catalogue.
    #[must_use]
    pub fn new(catalogue: Arc<Catalogue>, callers: HashMap<Source, Caller>) -> Self {
        let index = Arc::new(Index::new(&catalogue));
        Self { catalogue, index, callers, views: Mutex::default() }
    }

    /// What a caller sees of the tools. It is made once for all callers of the same kind.
    #[must_use]
    pub fn view(&self, access: &Access) -> Arc<View> {
        if let Some(known) = self.views.lock().get(access.hides()) {
            return Arc::clone(known);
        }
        let view = Arc::new(View::of(&self.catalogue, access.hides()));
        let mut views = self.views.lock();
        let old = if views.len() >= VIEWS_MAX { views.keys().next().cloned() } else { None };
        if let Some(old) = old {
            views.remove(&old);
        }
        views.insert(Arc::clone(access.hides()), Arc::clone(&view));
        view
    }

    /// Time one call of a tool may take, where its source has a time of its own.
    #[must_use]
    pub fn timeout(&self, entry: &Entry) -> Option<Duration> {
        match self.callers.get(&entry.tool.source)? {
            Caller::Direct(_) => None,
            Caller::Server(line) => line.timeout,
        }
    }

    /// One call at the source of the tool, ended by its deadline whatever the source does. Dropping the future cancels it.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        entry: &Entry,
        request: &ToolRequest,
        progress: Option<ProgressSink>,
    ) -> Result<ToolResult, CallError> {
        match self.callers.get(&entry.tool.source) {
            Some(Caller::Direct(server)) => server.call(request, progress).await,
            Some(Caller::Server(line)) => line.call(request, progress).await,
            None => Err(CallError::new(CallErrorKind::NotFound, format!("the source of {} is gone", entry.name))),
        }
    }
}
