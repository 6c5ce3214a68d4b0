//! The store's backend: rows that survive the process, and the faults of a disk or a server.
//!
//! A commit is atomic, as [`Backend::apply`] demands: a process that dies during it finds all of it afterwards, or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::outside::{Answer, Outside, Way};
use super::swarm::Port;
use ::store::{Backend, BackendError, Batch, OpenError, OwnedWrites, Steps};
use domain::counter::Counter;
use domain::ids::{Timestamp, millis};
use domain::keys;
use domain::ownership::{FencingToken, Range};
use ports::{Clock as _, StoredRow, Write};

/// The durable rows.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Mutex<BTreeMap<String, Row>>,
    /// The last batch of increments of each writer.
    counted: Mutex<BTreeMap<Arc<str>, u64>>,
}

#[derive(Debug)]
struct Row {
    text: String,
    /// The expiry in milliseconds since the epoch; `None` for never.
    end: Option<u64>,
}

impl Rows {
    /// Returns the live rows whose keys have this prefix.
    #[must_use]
    pub fn living(&self, now: Timestamp, prefix: &str) -> Vec<(String, String)> {
        let rows = self.rows.lock();
        let from = rows.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        from.filter(|(_, row)| row.lives(now)).map(|(key, row)| (key.clone(), row.text.clone())).collect()
    }

    fn get(&self, now: Timestamp, key: &str) -> Option<String> {
        self.rows.lock().get(key).filter(|row| row.lives(now)).map(|row| row.text.clone())
    }

    /// Applies a batch. Returns the ranges whose writes were refused.
    fn apply(&self, now: Timestamp, batch: Batch) -> Vec<Range> {
        let Batch { mut writes, owned, ticket } = batch;
        let mut refused = Vec::new();
        for OwnedWrites { term, writes: more } in owned {
            let key = keys::term(&term.range);
            if FencingToken::stored(self.get(now, &key).as_deref()) > term.token {
                refused.push(term.range);
                continue;
            }
            writes.push(Write::Put { key, value: term.token.to_string(), ttl: None });
            writes.extend(more);
        }
        let mut counted = self.counted.lock();
        let repeated = ticket.as_ref().is_some_and(|ticket| counted.get(&ticket.writer) >= Some(&ticket.number));
        if let Some(ticket) = ticket.filter(|_| !repeated) {
            counted.insert(ticket.writer, ticket.number);
        }
        let mut rows = self.rows.lock();
        let end = |ttl: std::time::Duration| now.0 + millis(ttl);
        for write in writes {
            match write {
                Write::Put { key, value, ttl } => {
                    rows.insert(key, Row { text: value, end: ttl.map(end) });
                }
                Write::Delete { key } => drop(rows.remove(&key)),
                Write::Add { .. } if repeated => {}
                Write::Add { key, by, ttl } => {
                    let before = rows.remove(&key).filter(|row| row.lives(now));
                    let sum = before.as_ref().and_then(|row| Counter::read(&row.text)).unwrap_or_default().plus(by);
                    let end = ttl.map_or_else(|| before.and_then(|row| row.end), |ttl| Some(end(ttl)));
                    rows.insert(key, Row { text: sum.to_string(), end });
                }
            }
        }
        refused
    }
}

impl Row {
    fn lives(&self, now: Timestamp) -> bool {
        self.end.is_none_or(|end| end > now.0)
    }
}

/// A backend on the rows.
pub struct SimulatedBackend(Arc<Outside>);

/// Opens the backend, if it is not away.
///
/// # Errors
/// The backend is away.
pub fn open(outside: &Arc<Outside>) -> Result<SimulatedBackend, OpenError> {
    if outside.is_away() {
        return Err(OpenError::Failed("the backend is away".to_owned()));
    }
    Ok(SimulatedBackend(Arc::clone(outside)))
}

impl SimulatedBackend {
    /// Performs one request, with its faults.
    async fn perform<T>(&self, port: Port, effect: impl FnOnce(&Outside) -> T) -> Result<T, BackendError> {
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
        self.perform(Port::Load, |outside| outside.rows.get(outside.now(), key)).await
    }

    async fn scan(&self, prefix: &str, limit: usize, steps: &Steps) -> Result<Vec<(String, String)>, BackendError> {
        let living = self.perform(Port::Load, |outside| outside.rows.living(outside.now(), prefix)).await;
        steps.done();
        living.map(|mut rows| {
            rows.truncate(limit);
            rows
        })
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Range>, BackendError> {
        self.perform(Port::Commit, |outside| {
            let Batch { writes, owned, ticket: _ } = &batch;
            outside.history.count(format_args!("commit {} {writes:?} {owned:?}", outside.elapsed()));
            outside.rows.apply(outside.now(), batch)
        })
        .await
    }

    async fn copy(&self, to: mpsc::Sender<StoredRow>) -> Result<(), BackendError> {
        let living = self.perform(Port::Load, |outside| outside.rows.living(outside.now(), "")).await?;
        for (key, value) in living {
            if to.send(StoredRow { key, value, ttl: None }).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn close(&self) {}
}
