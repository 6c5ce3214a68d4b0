//! The columns of the tables of one database, for the model to know them before its first statement. They are read in the background when
//! a turn asks for them and what is known is old; a database that does not answer is known by the names of its tables alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Asked, Database, Understood, is_plain_name};

/// The most tables of one database whose columns are read.
const TABLES_MAX: usize = 100;
/// The most columns of one table that are kept.
const COLUMNS_MAX: usize = 256;
/// The timeout of one reading of a database.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// How long turns wait for the first reading of a database, counted from the first turn that asks.
const FIRST_WITHIN: Duration = Duration::from_millis(300);
/// Columns that are older than this are read anew when a turn asks for them.
const FRESH: Duration = Duration::from_secs(60);
/// The pause after a reading in which no table could be read.
const RETRY_AFTER: Duration = Duration::from_secs(15);

/// What is known of the columns of one database.
#[derive(Default)]
pub(super) struct Columns {
    state: Mutex<State>,
    /// True once the first reading is over, whatever came of it.
    read: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// By the form of the tables' names that statements are compared with.
    tables: HashMap<String, Arc<[String]>>,
    /// When a turn asked first.
    asked: Option<Instant>,
    /// The next reading is not before this.
    due: Option<Instant>,
    reading: bool,
}

impl Columns {
    /// Has the columns read if they are old, and waits for the very first reading within its bound.
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
        // Without them in time, the names of the tables are told.
        let _ = timeout_at(until, read.wait_for(|read| *read)).await;
    }

    /// The columns of a table; empty if they are not known.
    pub(super) fn of(&self, key: &str) -> Arc<[String]> {
        self.state.lock().tables.get(key).cloned().unwrap_or_default()
    }

    /// Has them read anew for the next turn: a statement failed, so what is known may be out of date.
    pub(super) fn doubt(&self) {
        let mut state = self.state.lock();
        if !state.tables.is_empty() {
            state.due = None;
        }
    }
}

/// One reading of a database.
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
                match database.columns_of(key, table, READ_WITHIN).await {
                    Ok(columns) => drop(tables.insert(key.clone(), kept(columns))),
                    Err(reason) => trouble = Some(format!("{table}: {reason}")),
                }
            }
        };
        if timeout(READ_WITHIN, read).await.is_err() {
            trouble = Some("no answer in time".to_owned());
        }
        if let Some(reason) = trouble {
            let reason: String = reason.chars().take(super::FAILURE_CHARS).collect();
            let database = &database.name;
            tracing::warn!(
                event = "database.unread",
                database,
                reason,
                "columns of a database cannot be read; models are told fewer"
            );
        }
        let mut state = database.columns.state.lock();
        // A database that is away keeps the columns that it had.
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

/// The columns that a statement can name.
fn kept(columns: Vec<String>) -> Arc<[String]> {
    columns.into_iter().filter(|column| is_plain_name(column)).take(COLUMNS_MAX).collect()
}

impl Database {
    /// The names of the columns of one table.
    pub(super) async fn columns_of(&self, key: &str, table: &str, within: Duration) -> Result<Vec<String>, String> {
        let sql = format!("SELECT * FROM {} LIMIT 0", self.driver.engine().quoted(table));
        let reads = BTreeSet::from([key.to_owned()]);
        let statement = Understood { sql, reads, changes: None, fields: BTreeSet::new() };
        self.driver.run(statement, Asked { rows: 1, within }).await.map(|rows| rows.columns)
    }
}
