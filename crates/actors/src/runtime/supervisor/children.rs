//! The children of one supervisor: their start, the response when one ends, and their stop.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{ActorCell, ActorId, RactorErr, SupervisionEvent};
use tokio::time::Instant;

use super::watch::Watch;
use super::{ChildSpec, Crash, Shared};
use crate::runtime::handle::{LifeState, Stats};
use crate::runtime::shrink;
use crate::tree::TreeRow;
use domain::happening::ActorChange;
use domain::restart::{self, Exit, Intensity, RestartDecision, RestartPolicy};
use domain::unquoted::unquoted;
use ports::Input;

/// The maximum time for a killed actor to end: it ends at its next await.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Children {
    pub row: &'static TreeRow,
    /// The statistics of the supervisor itself.
    pub own: Arc<Stats>,
    pub shared: Arc<Shared>,
    pub cell: ActorCell,
    pub timer: Box<dyn Fn(Duration, Timer) + Send + Sync>,
    pub list: Siblings,
    pub watch: Watch,
    pub born: Instant,
}

/// A timer of a supervisor.
pub(super) enum Timer {
    /// Restart the child of this path.
    Revive(Arc<str>),
    /// Run the watchdog over the children.
    Look,
}

pub(super) struct Child {
    pub(super) spec: ChildSpec,
    pub(super) cell: Option<ActorCell>,
    /// The ends of the child; `None` before the first. Boxed, because a supervisor may have 100,000 children.
    history: Option<Box<restart::RestartHistory>>,
}

impl Child {
    fn new(spec: ChildSpec) -> Self {
        Self { spec, cell: None, history: None }
    }

    fn path(&self) -> &Arc<str> {
        &self.spec.stats().path
    }
}

/// The children in the order of their start. There may be 100,000 of them, so no lookup is a linear search.
#[derive(Default)]
pub(super) struct Siblings {
    pub(super) all: BTreeMap<u64, Child>,
    by_path: HashMap<Arc<str>, u64>,
    by_cell: HashMap<ActorId, u64>,
    next: u64,
}

impl Siblings {
    fn push(&mut self, child: Child) -> u64 {
        let index = self.next;
        self.next += 1;
        self.by_path.insert(Arc::clone(child.path()), index);
        self.all.insert(index, child);
        index
    }

    /// Marks the child as running.
    fn runs(&mut self, index: u64, cell: ActorCell) {
        if let Some(child) = self.all.get_mut(&index) {
            self.by_cell.insert(cell.get_id(), index);
            child.cell = Some(cell);
        }
    }

    /// Marks the child as not running; returns `None` if it is not known.
    fn ended(&mut self, index: u64) -> Option<&mut Child> {
        let child = self.all.get_mut(&index)?;
        if let Some(cell) = child.cell.take() {
            self.by_cell.remove(&cell.get_id());
        }
        Some(child)
    }

    fn remove(&mut self, index: u64) -> Option<Child> {
        let child = self.all.remove(&index)?;
        self.by_path.remove(child.path());
        if let Some(cell) = &child.cell {
            self.by_cell.remove(&cell.get_id());
        }
        shrink::shrink(&mut self.by_path);
        shrink::shrink(&mut self.by_cell);
        Some(child)
    }

    fn pop(&mut self) -> Option<Child> {
        let (index, _) = self.all.last_key_value()?;
        self.remove(*index)
    }

    fn named(&self, path: &str) -> Option<(u64, &Child)> {
        let index = self.by_path.get(path)?;
        self.all.get(index).map(|child| (*index, child))
    }
}

impl Children {
    /// Starts a new child, unless a child of that path runs.
    pub async fn add(&mut self, spec: ChildSpec) -> Result<(), Crash> {
        if self.list.named(&spec.stats().path).is_some() {
            return Ok(());
        }
        self.shared.roster.enter(Arc::clone(spec.stats()));
        spec.stats().tell(&self.shared.observers, ActorChange::Added);
        spec.stats().count_no_refusal();
        let index = self.list.push(Child::new(spec));
        self.watch.begin(&self.timer);
        self.spawn(index).await
    }

    async fn spawn(&mut self, index: u64) -> Result<(), Crash> {
        let Some(child) = self.list.all.get(&index) else { return Ok(()) };
        let stats = Arc::clone(child.spec.stats());
        match (child.spec.start)(self.cell.clone(), Arc::clone(&self.shared)).await {
            Ok(cell) => {
                self.list.runs(index, cell);
                stats.tell(&self.shared.observers, ActorChange::Started);
                Ok(())
            }
            Err(error) => self.ended(index, Some(error.to_string())).await,
        }
    }

    /// Restarts a failed child after its backoff.
    pub async fn revive(&mut self, path: &str) -> Result<(), Crash> {
        let waiting = self.list.named(path).filter(|(_, child)| child.cell.is_none());
        let Some((index, child)) = waiting else { return Ok(()) };
        let stats = Arc::clone(child.spec.stats());
        let restarts = stats.restarts.fetch_add(1, Ordering::Relaxed) + 1;
        stats.tell(&self.shared.observers, ActorChange::Restarted(restarts));
        self.spawn(index).await?;
        // A failed start is reported later, when a start succeeds.
        if self.list.named(path).is_some_and(|(_, child)| child.cell.is_some()) {
            (self.shared.recovered)(&stats);
        }
        Ok(())
    }

    pub async fn notice(&mut self, event: SupervisionEvent) -> Result<(), Crash> {
        let (cell, failure) = match event {
            SupervisionEvent::ActorTerminated(cell, _, reason) if reason.as_deref() == Some("killed") => {
                (cell, Some("killed".to_owned()))
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => (cell, None),
            SupervisionEvent::ActorFailed(cell, error) => (cell, Some(unquoted(&error.to_string()))),
            _ => return Ok(()),
        };
        match self.list.by_cell.get(&cell.get_id()).copied() {
            Some(index) => self.ended(index, failure).await,
            None => Ok(()),
        }
    }

    /// Applies the restart policy to a child that ended in order (no failure) or by a failure.
    async fn ended(&mut self, index: u64, failure: Option<String>) -> Result<(), Crash> {
        let Some(child) = self.list.ended(index) else { return Ok(()) };
        child.spec.address.disconnect();
        let (row, stats) = (child.spec.row, Arc::clone(child.spec.stats()));
        let path: &str = &stats.path;
        let exit = match &failure {
            Some(error) => {
                let input = stats.blame();
                stats.failed(error);
                let handling = input.map_or("nothing", Input::as_str);
                stats.tell(&self.shared.observers, ActorChange::Failed { error, handling });
                if input.is_some_and(Input::is_outside) { Exit::Poison } else { Exit::Failure }
            }
            None => {
                stats.end();
                stats.tell(&self.shared.observers, ActorChange::Stopped(None));
                Exit::Normal
            }
        };
        let policy = RestartPolicy { restart: row.restart, intensity: self.row.intensity, backoff: row.backoff };
        let history = child.history.get_or_insert_default();
        let decision = history.record(&policy, exit, self.born.elapsed(), self.shared.dice.roll());
        self.mark_descendants_stopped(path);
        match decision {
            RestartDecision::Leave => {
                stats.enter(LifeState::Stopped);
                self.list.remove(index);
                self.shared.roster.remove(path);
                if failure.is_some() {
                    (self.shared.recovered)(&stats);
                }
                Ok(())
            }
            RestartDecision::RestartAfter(delay) => {
                stats.restarts_after(delay);
                (self.timer)(delay, Timer::Revive(Arc::clone(&stats.path)));
                Ok(())
            }
            RestartDecision::Escalate => {
                stats.enter(LifeState::Stopped);
                self.list.remove(index);
                self.shared.roster.remove(path);
                let Intensity { restarts, period } = self.row.intensity;
                let escalated = ActorChange::Escalated { child: path, restarts, period };
                self.own.tell(&self.shared.observers, escalated);
                self.stop_all().await;
                let error = format!("{path} failed more often than {} allows", self.own.path);
                // The current input of the supervisor did not cause this failure.
                self.own.end();
                // The root has no supervisor that would record this failure.
                self.own.failed(&error);
                self.own.enter(LifeState::Stopped);
                Err(error.into())
            }
        }
    }

    /// Stops all children in the reverse order of their start, each within its stop timeout.
    pub async fn stop_all(&mut self) {
        while let Some(child) = self.list.pop() {
            self.stop(child).await;
        }
    }

    pub async fn remove(&mut self, path: &str) {
        let index = self.list.named(path).map(|(index, _)| index);
        if let Some(child) = index.and_then(|index| self.list.remove(index)) {
            self.stop(child).await;
        }
    }

    async fn stop(&self, child: Child) {
        let path = child.path();
        let reason = match &child.cell {
            None => "it waited for its restart",
            Some(cell) => match cell.drain_and_wait(Some(child.spec.row.stop_timeout)).await {
                Ok(()) => "stopped in order",
                Err(RactorErr::Timeout) => {
                    let _ = cell.kill_and_wait(Some(KILL_TIMEOUT)).await;
                    "killed at its deadline"
                }
                Err(_) => "it had ended already",
            },
        };
        child.spec.address.disconnect();
        child.spec.stats().enter(LifeState::Stopped);
        self.mark_descendants_stopped(path);
        self.shared.roster.remove(path);
        child.spec.stats().tell(&self.shared.observers, ActorChange::Stopped(Some(reason)));
    }

    /// Marks the descendants of an actor that terminated without stopping its children as stopped.
    fn mark_descendants_stopped(&self, path: &str) {
        for stats in self.shared.roster.prune_below(path) {
            stats.enter(LifeState::Stopped);
            stats.tell(&self.shared.observers, ActorChange::Stopped(Some("its supervisor ended")));
        }
    }
}
