//! A cache of the columns of a database's tables, so that the model has them before its first statement. It is
//! refreshed in the background when a turn needs it and it is stale; if the database does not answer, only the table
//! names are known.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Asked, Database, Understood, is_plain_name};
use domain::ids::Person;
use telemetry::events::DATABASE_UNREAD;

/// The maximum number of tables of a database whose columns are read.
const TABLES_MAX: usize = 100;
/// The maximum number of columns kept per table.
const COLUMNS_MAX: usize = 256;
/// Timeout of one refresh.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that turns await the first refresh of a database, counted from the first turn that needs it.
const FIRST_WITHIN: Duration = Duration::from_millis(300);
/// Age from which columns are stale.
const FRESH: Duration = Duration::from_secs(60);
/// Pause after a refresh that read no table.
const RETRY_AFTER: Duration = Duration::from_secs(15);

/// The cached columns of one database.
#[derive(Default)]
pub(super) struct Columns {
    state: Mutex<State>,
    /// True once the first refresh ended, also if it failed.
    read: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// By the normalized key of the table.
    tables: HashMap<String, Arc<[String]>>,
    /// The time of the first turn that needed them.
    asked: Option<Instant>,
    /// The earliest time of the next refresh.
    due: Option<Instant>,
    reading: bool,
}

impl Columns {
    /// Starts a refresh if the columns are stale, and awaits only the very first one, within its bound.
    pub(super) async fn refresh(databases: &Arc<[Database]>, at: usize) {
        let Some(database) = databases.get(at) else { return };
        let columns = &database.columns;
        let until = {
            let mut state = columns.state.lock();
            let now = Instant::now();
            if !state.reading && state.due.is_none_or(|due| due <= now) {
                state.reading = true;
                let reading = Reading { databases: Arc::clone(databases), at };
                tokio::spawn(reading.run());
            }
            *state.asked.get_or_insert(now) + FIRST_WITHIN
        };
        let mut read = columns.read.subscribe();
        // On a timeout only the names of the tables are shown.
        let _ = timeout_at(until, read.wait_for(|read| *read)).await;
    }

    /// Returns the columns of a table; empty if they are not known.
    pub(super) fn of(&self, key: &str) -> Arc<[String]> {
        self.state.lock().tables.get(key).cloned().unwrap_or_default()
    }

    /// Invalidates the cache: a statement failed, so the columns may have changed.
    pub(super) fn doubt(&self) {
        let mut state = self.state.lock();
        if !state.tables.is_empty() {
            state.due = None;
        }
    }
}

/// One refresh of a database.
struct Reading {
    databases: Arc<[Database]>,
    at: usize,
}

impl Reading {
    async fn run(self) {
        let Some(database) = self.databases.get(self.at) else { return };
        let mut tables = HashMap::new();
        let mut trouble = None;
        let read = async {
            for (key, table) in database.reads.iter().chain(&database.changes).take(TABLES_MAX) {
                match database.columns_of(key, table, READ_TIMEOUT, None).await {
                    Ok(columns) => drop(tables.insert(key.clone(), kept(columns))),
                    Err(reason) => trouble = Some(format!("{table}: {reason}")),
                }
            }
        };
        if timeout(READ_TIMEOUT, read).await.is_err() {
            trouble = Some("no answer in time".to_owned());
        }
        if let Some(reason) = trouble {
            let reason: String = reason.chars().take(super::FAILURE_CHARS).collect();
            let database = &database.name;
            tracing::warn!(
                event = DATABASE_UNREAD,
                database,
                reason,
                "cannot read the columns of a database; models see only what is cached"
            );
        }
        let mut state = database.columns.state.lock();
        // If a database is offline, its cached columns are kept.
        let pause = if tables.is_empty() { RETRY_AFTER } else { FRESH };
        if !tables.is_empty() {
            state.tables = tables;
        }
        state.due = Some(Instant::now() + pause);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(database) = self.databases.get(self.at) {
            database.columns.state.lock().reading = false;
            database.columns.read.send_replace(true);
        }
    }
}

/// Keeps the columns that a statement can name.
fn kept(columns: Vec<String>) -> Arc<[String]> {
    columns.into_iter().filter(|column| is_plain_name(column)).take(COLUMNS_MAX).collect()
}

impl Database {
    /// Reads the names of the columns of one table, for this person or for the cache.
    pub(super) async fn columns_of(
        &self,
        key: &str,
        table: &str,
        within: Duration,
        whose: Option<&Person>,
    ) -> Result<Vec<String>, String> {
        let sql = format!("SELECT * FROM {} LIMIT 0", self.driver.engine().quoted(table));
        let reads = BTreeSet::from([key.to_owned()]);
        let statement = Understood { sql, reads, changes: None, fields: BTreeSet::new(), casts: false };
        let (share, within) = self.permit(within, whose).await?;
        self.driver.run(statement, Asked { rows: 1, within }, share).await.map(|rows| rows.columns)
    }
}
