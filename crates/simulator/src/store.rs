//! The store's backend: rows that survive the process, and the faults of a disk or a server.
//!
//! A commit is atomic, as [`Backend::apply`] demands: a process that dies during it finds all of it afterwards, or nothing.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::outside::{Answer, Way};
use super::swarm::Port;
use super::world::World;
use ::store::{Backend, BackendError, Batch, FoundRows, OpenError, Steps};
use domain::ownership::Range;
use ports::{Clock as _, Scanned, StoredRow};

/// A backend on the rows.
pub struct SimulatedBackend(Arc<World>);

/// Opens the backend, if it is not away.
///
/// # Errors
/// The backend is away.
pub fn open(world: &Arc<World>) -> Result<SimulatedBackend, OpenError> {
    if world.is_away() {
        return Err(OpenError::Failed("the backend is away".to_owned()));
    }
    Ok(SimulatedBackend(Arc::clone(world)))
}

impl SimulatedBackend {
    /// Performs one request, with its faults.
    async fn perform<T>(&self, port: Port, effect: impl FnOnce(&World) -> T) -> Result<T, BackendError> {
        let failed = || BackendError::Failed("the backend failed".to_owned());
        if self.0.is_away() {
            return Err(BackendError::Broken("the backend is away".to_owned()));
        }
        let Way::Through(fault) = self.0.enter(port).await else { return Err(failed()) };
        let result = effect(&self.0);
        match self.0.leave(fault).await {
            Answer::Arrives => Ok(result),
            Answer::Lost => Err(failed()),
        }
    }
}

#[async_trait]
impl Backend for SimulatedBackend {
    async fn get(&self, key: &str) -> Result<Option<String>, BackendError> {
        self.perform(Port::Load, |world| world.rows.get(world.now(), key)).await
    }

    async fn scan_many(&self, prefixes: &[&str], limit: usize, steps: &Steps) -> Result<FoundRows, BackendError> {
        let living = |world: &World| {
            let rows = |prefix: &&str| world.rows.living(world.now(), prefix).into_iter().take(limit).collect();
            prefixes.iter().map(rows).collect()
        };
        let living = self.perform(Port::Load, living).await;
        steps.done();
        living.map(|found| Scanned::new(found, true))
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError> {
        self.0.commits();
        let applied = self.perform(Port::Commit, |world| {
            let Batch { writes, owned, ticket: _ } = &batch;
            world.history.count(format_args!("commit {} {writes:?} {owned:?}", world.elapsed()));
            world.rows.apply(world.now(), batch)
        });
        let applied = applied.await;
        if applied.is_ok() {
            self.0.committed();
        }
        applied
    }

    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        let living = self.perform(Port::Load, |world| world.rows.living(world.now(), "")).await?;
        for (key, value) in living {
            if to.send(StoredRow { key, value, ttl: None }).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn close(&self) {}
}
