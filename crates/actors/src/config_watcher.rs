//! `config_watcher`: reads changed files, and applies them if they are valid.
//!
//! Supervised by: staffai (permanent).
//! Receives: its own timer, and reload requests of operators.
//! Sends: `Configured` to tools; all other actors read the running configuration.
//! A restart loses: the fingerprints of the files; it reads the files again.
//!
//! A reload is atomic: settings, prompts, schema and model rows are read and checked together. Any error leaves the
//! running configuration unchanged. One read is in progress at a time, so an older one never replaces a newer one, and
//! any number of requests during a read cause one more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::messages::config_watcher::ConfigWatcherMsg;
use crate::messages::tools::ToolsMsg;
use crate::runtime::blocking::blocking_caught;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::links;
use crate::services::running::{Live, Running};
use domain::keys::{MODEL_ROWS, REVOKED_KEYS};
use ports::Store;
use telemetry::events::{CONFIG_REJECTED, CONFIG_RELOADED, CONFIG_WARNING};

/// The interval of the checks of the files. A revoked key must be invalid within 2 s, and its streams ended; a link of
/// another process must be in force within 2 s.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The keys that processes on a shared store exchange.
const SHARED: [&str; 2] = [MODEL_ROWS, REVOKED_KEYS];

/// The maximum number of changed files that a log line names.
const NAMED_MAX: usize = 10;

/// The fingerprints of files: a number for each file, which changes whenever the file changes.
pub type FileFingerprints = BTreeMap<PathBuf, u64>;

/// The files of the configuration. All calls can block on the disk.
pub trait Files: Send + Sync {
    /// Returns the fingerprints of the files.
    fn fingerprints(&self) -> FileFingerprints;

    /// Writes the shared value of this key to its file if it differs. Returns true if the file changed.
    fn mirror(&self, _key: &str, _shared: &str) -> bool {
        false
    }

    /// Reads all files. Returns their fingerprints from just before the read, and the content, or each error as a
    /// sentence with its position and fix. A later change of a file changes its fingerprint.
    fn read(&self) -> (FileFingerprints, Result<Running, Vec<String>>);
}

/// Events from its timer and its tasks.
pub enum ConfigWatcherEvent {
    /// The time to check the files.
    Look,
    /// The current fingerprints of the files; true if a file was just updated from the store.
    Looked(Option<FileFingerprints>, bool),
    /// The files were read; with the fingerprints from just before the read.
    Read(Option<FileFingerprints>, Result<Box<Running>, Vec<String>>),
}

/// The behaviour and its arguments.
pub struct ConfigWatcher {
    /// The files.
    pub files: Arc<dyn Files>,
    /// The running configuration.
    pub live: Live,
    /// The store in which processes share changes made at run time.
    pub store: Arc<dyn Store>,
    /// The supervisor of tool servers.
    pub tools: Handle<ToolsMsg>,
}

/// The state of the watcher.
#[derive(Default)]
pub struct ConfigWatcherState {
    /// The fingerprints of the last check.
    known: Option<FileFingerprints>,
    /// The fingerprints of the running configuration.
    in_force: Option<FileFingerprints>,
    reading: Reading,
}

/// The state of reading the files.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reading {
    #[default]
    Idle,
    /// A read is in progress.
    Once,
    /// A read is in progress, and another one follows.
    Again,
}

impl Actor for ConfigWatcher {
    type Msg = ConfigWatcherMsg;
    type Event = ConfigWatcherEvent;
    type State = ConfigWatcherState;

    fn start(&self, ctx: &mut ActorContext<ConfigWatcher>) -> Result<ConfigWatcherState, Crash> {
        self.look(ctx);
        Ok(ConfigWatcherState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: ConfigWatcherMsg,
        state: &mut ConfigWatcherState,
    ) -> Result<(), Crash> {
        match message {
            ConfigWatcherMsg::Reload => self.read(ctx, state),
        }
        Ok(())
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ConfigWatcherEvent,
        state: &mut ConfigWatcherState,
    ) -> Result<(), Crash> {
        match event {
            ConfigWatcherEvent::Look => self.look(ctx),
            ConfigWatcherEvent::Looked(seen, mirrored) => {
                if mirrored || (seen.is_some() && state.known.is_some() && seen != state.known) {
                    self.read(ctx, state);
                }
                if let Some(seen) = seen {
                    state.in_force.get_or_insert_with(|| seen.clone());
                    state.known = Some(seen);
                }
                ctx.after(LOOK_EVERY, ConfigWatcherEvent::Look);
            }
            ConfigWatcherEvent::Read(seen, result) => {
                let files = changed(state.in_force.as_ref(), seen.as_ref());
                if result.is_ok() {
                    state.in_force.clone_from(&seen);
                }
                state.known = seen.or(state.known.take());
                match result {
                    Ok(running) => self.put_in_force(*running, files.as_deref()),
                    Err(mistakes) => self.reject(&mistakes, files.as_deref()),
                }
                if std::mem::take(&mut state.reading) == Reading::Again {
                    self.read(ctx, state);
                }
            }
        }
        Ok(())
    }
}

impl ConfigWatcher {
    fn look(&self, ctx: &mut ActorContext<ConfigWatcher>) {
        let (files, store, live) = (Arc::clone(&self.files), Arc::clone(&self.store), self.live.clone());
        let look = async move {
            links::refresh(&live, &*store).await;
            let mut told = Vec::new();
            for key in SHARED {
                told.extend(store.get(key).await.map(|shared| (key, shared)));
            }
            let looked = blocking_caught(move || {
                let mirrored = told.iter().fold(false, |any, (key, shared)| files.mirror(key, shared) || any);
                (files.fingerprints(), mirrored)
            });
            match looked.await {
                Ok((fingerprints, mirrored)) => ConfigWatcherEvent::Looked(Some(fingerprints), mirrored),
                Err(_) => ConfigWatcherEvent::Looked(None, false),
            }
        };
        ctx.task(look, |_| ConfigWatcherEvent::Looked(None, false));
    }

    fn read(&self, ctx: &mut ActorContext<ConfigWatcher>, state: &mut ConfigWatcherState) {
        if state.reading != Reading::Idle {
            state.reading = Reading::Again;
            return;
        }
        state.reading = Reading::Once;
        let files = Arc::clone(&self.files);
        let read = blocking_caught(move || files.read());
        ctx.task(
            async move {
                match read.await {
                    Ok((seen, result)) => ConfigWatcherEvent::Read(Some(seen), result.map(Box::new)),
                    Err(panic) => ConfigWatcherEvent::Read(None, Err(vec![panic])),
                }
            },
            |panic| ConfigWatcherEvent::Read(None, Err(vec![panic])),
        );
    }

    fn reject(&self, mistakes: &[String], files: Option<&str>) {
        let reason = mistakes.join("; ");
        tracing::error!(
            event = CONFIG_REJECTED,
            files,
            reason,
            "the changed files are invalid; the previous configuration stays in force"
        );
        self.live.reject(reason);
    }

    fn put_in_force(&self, running: Running, files: Option<&str>) {
        let old = self.live.now();
        for key in running.fixed_at_start(&old) {
            tracing::warn!(event = CONFIG_WARNING, key, "this setting changed; it takes effect at the next start");
        }
        tracing::info!(
            event = CONFIG_RELOADED,
            files,
            version = running.version,
            before = old.version,
            "configuration in force"
        );
        self.live.replace(running);
        // A supervisor that refuses this applies the running configuration at its restart, or once its mailbox has
        // room.
        self.tools.tell(ToolsMsg::Configured);
    }
}

/// Returns the files that changed, appeared or disappeared; `None` if there are none or the fingerprints are unknown.
fn changed(before: Option<&FileFingerprints>, after: Option<&FileFingerprints>) -> Option<String> {
    let (before, after) = (before?, after?);
    let went = before.keys().filter(|path| !after.contains_key(*path));
    let other = after.iter().filter(|(path, look)| before.get(*path) != Some(look)).map(|(path, _)| path);
    let mut names: Vec<String> = went.chain(other).map(|path| path.display().to_string()).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let named = names.join(", ");
    match (names.len(), more) {
        (0, _) => None,
        (_, 0) => Some(named),
        (_, more) => Some(format!("{named} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::testing::{LEAF, Stage, at, row, usual};
    use domain::ids::Person;
    use domain::keys::LINKS;
    use parking_lot::Mutex;
    use ports::Write;
    use ports::testing::MemoryStore;

    /// Files whose reads last until they are released.
    struct SlowFiles {
        reads: AtomicUsize,
        released: Mutex<Receiver<()>>,
    }

    impl Files for SlowFiles {
        fn fingerprints(&self) -> FileFingerprints {
            FileFingerprints::default()
        }

        fn read(&self) -> (FileFingerprints, Result<Running, Vec<String>>) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let _ = self.released.lock().recv();
            (FileFingerprints::default(), Err(vec!["wrong".to_owned()]))
        }
    }

    async fn reads_become(files: &SlowFiles, count: usize) {
        let reached = async {
            while files.reads.load(Ordering::SeqCst) != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(30), reached).await.is_ok(), "{count} reads");
    }

    #[tokio::test]
    async fn requests_during_a_read_cause_one_more() {
        let (release, released): (Sender<()>, _) = channel();
        let files = Arc::new(SlowFiles { reads: AtomicUsize::new(0), released: Mutex::new(released) });
        let (watcher, mut stage) = (at::<ConfigWatcherMsg>("config_watcher"), Stage::new());
        let tools = at("tools");
        let _inbox = stage.probe(&tools);
        let (store, live) = (Arc::new(MemoryStore::new()), usual());
        let actor = ConfigWatcher { files: Arc::clone(&files) as _, live: live.clone(), store, tools };
        stage.actor(row(LEAF), &watcher, actor);
        let _tree = stage.go().await;
        for _ in 0..50 {
            watcher.tell(ConfigWatcherMsg::Reload);
        }
        reads_become(&files, 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(files.reads.load(Ordering::SeqCst), 1, "one read at a time");
        release.send(()).unwrap();
        reads_become(&files, 2).await;
        release.send(()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((files.reads.load(Ordering::SeqCst), live.rejected().as_deref()), (2, Some("wrong")));
        drop(release);
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_of_another_process_is_in_force_within_two_seconds() {
        let (_release, released): (Sender<()>, _) = channel();
        let files = Arc::new(SlowFiles { reads: AtomicUsize::new(0), released: Mutex::new(released) });
        let (watcher, mut stage) = (at::<ConfigWatcherMsg>("config_watcher"), Stage::new());
        let tools = at("tools");
        let _inbox = stage.probe(&tools);
        let (store, live) = (Arc::new(MemoryStore::new()), usual());
        let actor = ConfigWatcher { files, live: live.clone(), store: Arc::clone(&store) as _, tools };
        stage.actor(row(LEAF), &watcher, actor);
        let _tree = stage.go().await;
        let account = |text: &str| text.parse::<Person>().unwrap();
        let (ada, key) = (account("discord:7"), account("api:laptop"));
        let linked = r#"{"version":1,"people":[["discord:7","api:laptop"]]}"#;
        // The last value is damaged: what was read before stays in force.
        for (value, lead) in [(linked, &ada), (r#"{"version":1,"people":[]}"#, &key), (linked, &ada), ("{", &ada)] {
            store.write(vec![Write::Put { key: LINKS.to_owned(), value: value.to_owned(), ttl: None }]).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(live.linked(&key).lead(&key), lead, "{value}");
        }
    }

    fn fingerprints(files: &[(&str, u64)]) -> FileFingerprints {
        files.iter().map(|(path, look)| (PathBuf::from(path), *look)).collect()
    }

    #[test]
    fn changed_files_are_named_and_many_are_counted() {
        let before = fingerprints(&[("a", 1), ("b", 1), ("c", 1)]);
        let after = fingerprints(&[("a", 1), ("b", 2), ("d", 1)]);
        assert_eq!(changed(Some(&before), Some(&after)).as_deref(), Some("b, c, d"));
        assert_eq!(changed(Some(&before), Some(&before)), None);
        assert_eq!(changed(None, Some(&before)), None);
        let many: FileFingerprints = (0..15).map(|number| (PathBuf::from(format!("{number:02}")), 1)).collect();
        let told = changed(Some(&FileFingerprints::default()), Some(&many)).unwrap();
        assert!(told.starts_with("00, 01") && told.ends_with("09 and 5 more"), "{told}");
    }
}
