//! The available tools: one immutable snapshot, replaced as a whole when a source changes. A turn keeps the snapshot
//! with which it started, so its calls are checked against the tools that its model was offered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, timeout_at};

use crate::messages::reusable_server::ReusableServer;
use crate::messages::server_line::ServerLine;
use crate::runtime::blocking::{blocking, blocking_if};
use domain::completion::ToolSpec;
use domain::tool::access::Access;
use domain::tool::begun::CallReply;
use domain::tool::catalogue::{Catalogue, CatalogueEntry};
use domain::tool::outline::outlined;
use domain::tool::rights::Hidden;
use domain::tool::selection::Index;
use domain::tool::view::View;
use domain::tool::{CallError, CallErrorKind, Source, ToolKind, ToolRequest};
use ports::{ProgressSink, ToolServer};

/// The maximum time after process start for which turns wait for the stored tool lists of the servers.
const LISTS_TIMEOUT: Duration = Duration::from_secs(1);

/// The current snapshot. It lives outside the actors and outlives their restarts.
#[derive(Default)]
pub struct Toolbox {
    now: watch::Sender<Arc<Toolset>>,
    /// True once the snapshot contains the last known lists of the servers.
    listed: watch::Sender<bool>,
    /// The end of the wait for these lists; `None` if there are no servers.
    patience: Option<Instant>,
}

impl Toolbox {
    /// Creates the first snapshot of a process. `servers`: stored lists of servers are about to be read.
    #[must_use]
    pub fn beginning_with(tools: Toolset, servers: bool) -> Self {
        let patience = servers.then(|| Instant::now() + LISTS_TIMEOUT);
        Self { now: watch::Sender::new(Arc::new(tools)), listed: watch::Sender::default(), patience }
    }

    /// Returns the current tools.
    #[must_use]
    pub fn now(&self) -> Arc<Toolset> {
        Arc::clone(&self.now.borrow())
    }

    /// Returns the tools for a turn that starts now. Just after process start, it waits for the stored lists of the
    /// servers, so that a turn has the tools of a server before its connection is up.
    pub async fn listed(&self) -> Arc<Toolset> {
        if let Some(until) = self.patience.filter(|until| *until > Instant::now()) {
            let mut listed = self.listed.subscribe();
            // Lists that are not read by then are left out of this turn.
            let _ = timeout_at(until, listed.wait_for(|listed| *listed)).await;
        }
        self.now()
    }

    /// Replaces the snapshot. Running turns keep theirs.
    pub fn publish(&self, tools: Toolset) {
        self.now.send_replace(Arc::new(tools));
        self.listed.send_replace(true);
    }

    /// Completes once a tool of this name is available. The caller bounds the wait.
    pub async fn offers(&self, tool: &str) {
        let mut snapshots = self.now.subscribe();
        // The sender lives as long as this borrow.
        let _ = snapshots.wait_for(|tools| tools.catalogue.get(tool).is_some()).await;
    }
}

/// One snapshot.
#[derive(Default)]
pub struct Toolset {
    /// All tools by the names that models use.
    pub catalogue: Arc<Catalogue>,
    /// The index for a search by words.
    pub index: Arc<Index>,
    /// The caller for each source.
    callers: HashMap<Source, Caller>,
    /// The view of callers without hidden tools.
    everything: Arc<View>,
    /// The positions of built-in tools that reach databases.
    reaching: Vec<u32>,
    /// The views of other callers, by the patterns that hide tools.
    views: Mutex<HashMap<Arc<[Hidden]>, Place>>,
}

/// The cell of one kind of caller's view, computed once.
type Place = Arc<OnceCell<Arc<View>>>;

/// The maximum number of cached views; further kinds of callers get a new view on each request.
const VIEWS_MAX: usize = 64;
/// The maximum number of name and pattern comparisons on a task before it yields; more run on a blocking thread.
const MATCHES_AT_ONCE: usize = 10_000;

/// The route to the tools of one source.
#[derive(Clone)]
pub enum Caller {
    /// A direct call in this process.
    Direct(Arc<dyn ToolServer>),
    /// Through the actor of its server.
    Server(ServerLine),
}

impl Toolset {
    /// Creates a snapshot of this catalogue.
    #[must_use]
    pub fn new(catalogue: Arc<Catalogue>, callers: HashMap<Source, Caller>) -> Self {
        let index = Arc::new(Index::new(&catalogue));
        let everything = Arc::new(View::of(&catalogue, &[]));
        let reaches = |place: &u32| catalogue.entries()[*place as usize].tool.kind == ToolKind::Db;
        let reaching = everything.built_in().iter().copied().filter(reaches).collect();
        Self { catalogue, index, callers, everything, reaching, views: Mutex::default() }
    }

    /// Returns the tools visible to a caller, computed once for all callers of the same kind.
    pub async fn view(&self, access: &Access) -> Arc<View> {
        let hides = access.hides();
        if hides.is_empty() {
            return Arc::clone(&self.everything);
        }
        let made = async {
            let (catalogue, hides) = (Arc::clone(&self.catalogue), Arc::clone(hides));
            let patterns = hides.iter().filter(|hidden| hidden.reads_names()).count();
            let matches = catalogue.entries().len().saturating_mul(patterns);
            blocking_if(matches > MATCHES_AT_ONCE, move || Arc::new(View::of(&catalogue, &hides))).await
        };
        let place = self.place_of(hides);
        Arc::clone(place.get_or_init(|| made).await)
    }

    /// Returns the built-in tools that reach databases, each with the description for this caller's model. A database
    /// that cannot be read is described by its table names.
    pub async fn outlined(&self, access: &Arc<Access>) -> Arc<[Arc<ToolSpec>]> {
        let seen = self.reaching.iter().map(|place| &self.catalogue.entries()[*place as usize]);
        let outlines = seen.filter(|entry| access.sees(entry)).map(|entry| async move {
            match self.callers.get(&entry.tool.source) {
                Some(Caller::Direct(server)) => Some((Arc::clone(entry), server.outline(&entry.tool.name).await?)),
                Some(Caller::Server(_)) | None => None,
            }
        });
        let outlines: Vec<_> = join_all(outlines).await.into_iter().flatten().collect();
        if outlines.is_empty() {
            return Arc::from([]);
        }
        let access = Arc::clone(access);
        // There can be many columns and many rules.
        let told =
            move || outlines.iter().map(|(entry, outline)| Arc::new(outlined(entry, outline, &access))).collect();
        blocking(told).await
    }

    /// Returns the cell for the view of callers with these hidden patterns.
    fn place_of(&self, hides: &Arc<[Hidden]>) -> Place {
        let mut views = self.views.lock();
        if views.len() >= VIEWS_MAX && !views.contains_key(hides) {
            let other = views.keys().next().cloned();
            other.and_then(|other| views.remove(&other));
        }
        Arc::clone(views.entry(Arc::clone(hides)).or_default())
    }

    /// Returns the timeout of one call of a tool, if its source has its own.
    #[must_use]
    pub fn timeout(&self, entry: &CatalogueEntry) -> Option<Duration> {
        match self.callers.get(&entry.tool.source)? {
            Caller::Direct(server) => server.timeout(&entry.tool.name),
            Caller::Server(line) => line.timeout,
        }
    }

    /// Returns the server of a tool, for results that may be reused.
    #[must_use]
    pub fn reuse(&self, entry: &CatalogueEntry) -> Option<&Arc<ReusableServer>> {
        match self.callers.get(&entry.tool.source)? {
            Caller::Server(line) => Some(&line.reuse),
            Caller::Direct(_) => None,
        }
    }

    /// Makes one step of a call at the source of the tool; the deadline ends it in any case. Dropping the future cancels the call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        entry: &CatalogueEntry,
        request: &ToolRequest,
        progress: Option<ProgressSink>,
    ) -> Result<CallReply, CallError> {
        match self.callers.get(&entry.tool.source) {
            Some(Caller::Direct(server)) => server.step(request, progress).await,
            Some(Caller::Server(line)) => line.call(request, Some(&entry.pin), progress).await,
            None => Err(CallError::new(CallErrorKind::NotFound, format!("the source of {} is gone", entry.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use domain::tool::catalogue::{Offer, TOOLS_MAX};
    use domain::tool::rights::{Rule, Verdict};
    use domain::tool::testing::tool;

    fn toolset(tools: usize) -> Toolset {
        let tools = (0..tools).map(|number| Arc::new(tool("s", &format!("tool_{number}"), "")));
        let offer = Offer { tools: tools.collect(), ..Offer::default() };
        let catalogue = Catalogue::new(&[offer], &Catalogue::default(), |_| serde_json::json!({}));
        Toolset::new(Arc::new(catalogue), HashMap::new())
    }

    /// A caller from whom this many patterns hide tools.
    fn access(patterns: usize) -> Access {
        let deny = |number| Rule::everywhere(&format!("s__*{number}x*"), Verdict::Deny);
        Access::of_a_member((0..patterns).map(deny).collect())
    }

    #[tokio::test]
    async fn a_long_list_is_looked_through_beside_the_tasks_and_once_for_all_of_one_kind() {
        let (few, many) = (toolset(100), toolset(TOOLS_MAX));
        assert!(few.view(&access(20)).now_or_never().is_some());
        assert!(many.view(&access(0)).now_or_never().is_some(), "without a pattern no name is looked through");
        assert!(many.view(&access(20)).now_or_never().is_none(), "the task lets others have their turn");
        let callers: Vec<Access> = (0..100).map(|_| access(20)).collect();
        let views = join_all(callers.iter().map(|caller| many.view(caller))).await;
        assert!(views.iter().all(|view| Arc::ptr_eq(view, &views[0])));
        assert!(many.view(&access(20)).now_or_never().is_some(), "it is known from then on");
    }

    #[tokio::test]
    async fn views_of_ever_other_callers_are_bounded() {
        let tools = toolset(3);
        for patterns in 1..=VIEWS_MAX + 10 {
            assert_eq!(tools.view(&access(patterns)).await.all(3, 9_999), Some(&[0, 1, 2][..]));
        }
        assert_eq!(tools.views.lock().len(), VIEWS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_turns_of_a_process_wait_for_the_stored_lists_and_no_longer_than_a_moment() {
        let begun = Instant::now();
        let plain = Toolbox::beginning_with(toolset(1), false);
        assert_eq!((plain.listed().await.catalogue.entries().len(), begun.elapsed()), (1, Duration::ZERO));
        let toolbox = Arc::new(Toolbox::beginning_with(toolset(1), true));
        let waiting = tokio::spawn({
            let toolbox = Arc::clone(&toolbox);
            async move { toolbox.listed().await.catalogue.entries().len() }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        toolbox.publish(toolset(2));
        assert_eq!((waiting.await.unwrap(), begun.elapsed()), (2, Duration::from_millis(300)));
        let never = Toolbox::beginning_with(toolset(1), true);
        assert_eq!(never.listed().await.catalogue.entries().len(), 1);
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert!(never.listed().now_or_never().is_some(), "later turns do not wait again");
    }
}
