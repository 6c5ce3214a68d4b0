//! The tools that there are now, as turns use them: one immutable snapshot, replaced as a whole when a source changes. A turn keeps
//! the snapshot that it began with, so what its model was offered is what its calls are checked against.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, timeout_at};

use crate::messages::server_line::ServerLine;
use crate::runtime::blocking::blocking;
use domain::completion::ToolSpec;
use domain::tool::access::Access;
use domain::tool::catalogue::{Catalogue, Entry};
use domain::tool::outline::outlined;
use domain::tool::rights::Hidden;
use domain::tool::selection::Index;
use domain::tool::view::View;
use domain::tool::{CallError, CallErrorKind, Source, ToolKind, ToolRequest, ToolResult};
use ports::{ProgressSink, ToolServer};

/// How long after the start of a process its turns wait for the stored lists of its servers.
const LISTS_WITHIN: Duration = Duration::from_secs(1);

/// The current snapshot. Lives outside the actors: it outlives their restarts.
#[derive(Default)]
pub struct Toolbox {
    now: watch::Sender<Arc<Toolset>>,
    /// The lists of servers are in it, as they were known last.
    listed: watch::Sender<bool>,
    /// Until when they are waited for; none when there are none.
    patience: Option<Instant>,
}

impl Toolbox {
    /// What a process begins with. `servers`: the lists of some are about to be read from the store.
    #[must_use]
    pub fn beginning_with(tools: Toolset, servers: bool) -> Self {
        let patience = servers.then(|| Instant::now() + LISTS_WITHIN);
        Self { now: watch::Sender::new(Arc::new(tools)), listed: watch::Sender::default(), patience }
    }

    /// The tools as they are now.
    #[must_use]
    pub fn now(&self) -> Arc<Toolset> {
        Arc::clone(&self.now.borrow())
    }

    /// The tools for a turn that begins now. In the first moment of a process the stored lists of its servers are waited for: with
    /// them a turn knows the tools of a server before that is connected.
    pub async fn listed(&self) -> Arc<Toolset> {
        if let Some(until) = self.patience.filter(|until| *until > Instant::now()) {
            let mut listed = self.listed.subscribe();
            // What is not read by then is left out of this turn.
            let _ = timeout_at(until, listed.wait_for(|listed| *listed)).await;
        }
        self.now()
    }

    /// Replaces the snapshot. What runs goes on with the one that it has.
    pub fn publish(&self, tools: Toolset) {
        self.now.send_replace(Arc::new(tools));
        self.listed.send_replace(true);
    }

    /// Waits until there is a tool of this name in calls. The caller bounds the wait.
    pub async fn offers(&self, tool: &str) {
        let mut snapshots = self.now.subscribe();
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
    /// What is seen by callers from whom nothing is hidden.
    everything: Arc<View>,
    /// Places of tools of this program that reach databases.
    reaching: Vec<u32>,
    /// What other callers see, by the patterns that hide tools from them.
    views: Mutex<HashMap<Arc<[Hidden]>, Place>>,
}

/// Where the view of callers of one kind is kept, and made once.
type Place = Arc<OnceCell<Arc<View>>>;

/// The most kinds of callers whose views are kept; rules that tell more of them apart have views made anew.
const VIEWS_MAX: usize = 64;
/// The most names and patterns that a task compares with each other before others have their turn; more are compared on a thread of
/// their own.
const MATCHES_AT_ONCE: usize = 10_000;

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
        let everything = Arc::new(View::of(&catalogue, &[]));
        let reaches = |place: &u32| catalogue.entries()[*place as usize].tool.kind == ToolKind::Db;
        let reaching = everything.built_in().iter().copied().filter(reaches).collect();
        Self { catalogue, index, callers, everything, reaching, views: Mutex::default() }
    }

    /// What a caller sees of the tools. It is made once for all callers of the same kind.
    pub async fn view(&self, access: &Access) -> Arc<View> {
        let hides = access.hides();
        if hides.is_empty() {
            return Arc::clone(&self.everything);
        }
        let made = async {
            let (catalogue, hides) = (Arc::clone(&self.catalogue), Arc::clone(hides));
            let patterns = hides.iter().filter(|hidden| hidden.reads_names()).count();
            let matches = catalogue.entries().len().saturating_mul(patterns);
            let make = move || Arc::new(View::of(&catalogue, &hides));
            if matches <= MATCHES_AT_ONCE { make() } else { blocking(make).await }
        };
        let place = self.place_of(hides);
        Arc::clone(place.get_or_init(|| made).await)
    }

    /// The tools of this program that reach databases, each as the model of this caller is told of it. A database that cannot be read
    /// is known by the names of its tables.
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
        // There may be many columns and many rules.
        let told =
            move || outlines.iter().map(|(entry, outline)| Arc::new(outlined(entry, outline, &access))).collect();
        blocking(told).await
    }

    /// Where the view of callers is kept from whom these patterns hide tools.
    fn place_of(&self, hides: &Arc<[Hidden]>) -> Place {
        let mut views = self.views.lock();
        if views.len() >= VIEWS_MAX && !views.contains_key(hides) {
            let other = views.keys().next().cloned();
            other.and_then(|other| views.remove(&other));
        }
        Arc::clone(views.entry(Arc::clone(hides)).or_default())
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

    /// A caller from whom tools of so many patterns are hidden.
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
