//! `config_watcher`: reads changed files again, and puts them in force when they are right.
//!
//! Supervised by: staffai (permanent).
//! Receives: its own timer, and the operator's wish to reload.
//! Sends: nothing; whoever needs settings reads what runs now.
//! A restart loses: what it knew of the files; it reads them once more.
//!
//! All or nothing: settings, prompts, schema and model rows are read and checked together. A mistake anywhere leaves everything
//! as it was.

use std::sync::Arc;
use std::time::Duration;

use super::running::{Live, Running};
use super::supervisor::{Actor, Crash, Me};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The files behind what runs. Both calls may block on the disk.
pub trait Files: Send + Sync {
    /// Changes whenever one of the files does.
    fn fingerprint(&self) -> u64;

    /// Reads everything anew. Gives how the files looked just before they were read, and what was in them, or each mistake as a
    /// sentence with its place and fix. What changed since then changes the fingerprint.
    fn read(&self) -> (u64, Result<Running, Vec<String>>);
}

/// What the watcher is told.
pub enum ConfigWatcherMsg {
    /// Time to look at the files.
    Look,
    /// The files look like this now.
    Looked(Option<u64>),
    /// The operator wants the files to be read, changed or not.
    Reload,
    /// The files were read; just before that they looked like this.
    Read(Option<u64>, Result<Box<Running>, Vec<String>>),
}

/// The behaviour and its arguments.
pub struct ConfigWatcher {
    /// The files.
    pub files: Arc<dyn Files>,
    /// What runs.
    pub live: Live,
}

/// What the watcher holds.
#[derive(Default)]
pub struct ConfigWatcherState {
    known: Option<u64>,
}

impl Actor for ConfigWatcher {
    type Msg = ConfigWatcherMsg;
    type State = ConfigWatcherState;

    fn start(&self, me: &mut Me<ConfigWatcherMsg>) -> Result<ConfigWatcherState, Crash> {
        self.look(me);
        Ok(ConfigWatcherState::default())
    }

    async fn handle(
        &self,
        me: &mut Me<ConfigWatcherMsg>,
        message: ConfigWatcherMsg,
        state: &mut ConfigWatcherState,
    ) -> Result<(), Crash> {
        match message {
            ConfigWatcherMsg::Look => self.look(me),
            ConfigWatcherMsg::Looked(seen) => {
                if seen.is_some() && state.known.is_some() && seen != state.known {
                    self.read(me);
                }
                state.known = seen.or(state.known);
                me.after(LOOK_EVERY, ConfigWatcherMsg::Look);
            }
            ConfigWatcherMsg::Reload => self.read(me),
            ConfigWatcherMsg::Read(seen, Ok(running)) => {
                state.known = seen.or(state.known);
                self.put_in_force(*running);
            }
            ConfigWatcherMsg::Read(seen, Err(mistakes)) => {
                state.known = seen.or(state.known);
                let reason = mistakes.join("; ");
                tracing::error!(event = "config.rejected", reason, "the changed files are wrong; what runs goes on");
                self.live.reject(reason);
            }
        }
        Ok(())
    }
}

impl ConfigWatcher {
    fn look(&self, me: &mut Me<ConfigWatcherMsg>) {
        let files = Arc::clone(&self.files);
        let looked = tokio::task::spawn_blocking(move || files.fingerprint());
        me.task(async move { ConfigWatcherMsg::Looked(looked.await.ok()) }, |_| ConfigWatcherMsg::Looked(None));
    }

    fn read(&self, me: &mut Me<ConfigWatcherMsg>) {
        let files = Arc::clone(&self.files);
        let read = tokio::task::spawn_blocking(move || files.read());
        me.task(
            async move {
                match read.await {
                    Ok((seen, result)) => ConfigWatcherMsg::Read(Some(seen), result.map(Box::new)),
                    Err(error) => ConfigWatcherMsg::Read(None, Err(vec![error.to_string()])),
                }
            },
            |panic| ConfigWatcherMsg::Read(None, Err(vec![panic])),
        );
    }

    fn put_in_force(&self, running: Running) {
        let old = self.live.now();
        for key in running.fixed_at_start(&old) {
            tracing::warn!(event = "config.warning", key, "this setting changed; it takes effect at the next start");
        }
        tracing::info!(
            event = "config.reloaded",
            version = running.version,
            before = old.version,
            "configuration in force"
        );
        self.live.replace(running);
    }
}
