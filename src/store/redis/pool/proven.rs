//! A test before each use would double the round trips of a busy store. A connection that has answered within the last moment
//! is as good as tested; any other is tested before it is used, also one whose last user stopped waiting for its answer.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleResult};
use tokio::time::Instant;

/// How long an answer proves that a connection is alive. Short, so that after a server fell silent only those who ask in that
/// moment wait in vain.
const PROVEN_FOR: Duration = Duration::from_millis(500);

/// A manager whose connections are tested only when their last answer is older than [`PROVEN_FOR`].
pub struct Proven<M>(pub M);

/// A connection, and when it answered last.
pub struct Tried<C> {
    connection: C,
    /// None while somebody waits for an answer.
    answered: Option<Instant>,
}

impl<C> Tried<C> {
    /// What was asked has been answered.
    pub fn answered(&mut self) {
        self.answered = Some(Instant::now());
    }
}

impl<C> Deref for Tried<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.connection
    }
}

impl<C> DerefMut for Tried<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.connection
    }
}

impl<M: Manager> Manager for Proven<M> {
    type Type = Tried<M::Type>;
    type Error = M::Error;

    async fn create(&self) -> Result<Self::Type, Self::Error> {
        self.0.create().await.map(|connection| Tried { connection, answered: None })
    }

    async fn recycle(&self, tried: &mut Self::Type, metrics: &Metrics) -> RecycleResult<Self::Error> {
        if tried.answered.take().is_some_and(|at| at.elapsed() < PROVEN_FOR) {
            return Ok(());
        }
        self.0.recycle(&mut tried.connection, metrics).await
    }
}
