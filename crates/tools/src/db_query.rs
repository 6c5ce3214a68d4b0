//! `db_query` and `db_change`: SQL statements on configured databases.
//!
//! - A parser decides which tables a statement reads and changes; a statement that it does not fully understand is
//!   rejected.
//! - Defence in depth: the databases are instructed to enforce the same rights and bounds.

mod allowed;
mod columns;
mod engine;
mod expansion;
mod harmless;
mod mysql;
mod names;
mod postgres;
mod rows;
mod rows_as_values;
mod session;
mod sqlite;
mod statement;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use self::columns::Columns;
pub use self::engine::{Engine, is_plain_name};
use self::mysql::Mysql;
use self::postgres::Postgres;
use self::rows::Rows;
use self::sqlite::Sqlite;
pub use self::statement::{Understood, understand};
use super::{BuiltInTool, arguments, reads};
use domain::ids::Person;
use domain::tool::access::RESOURCES;
use domain::tool::outline::{Outline, Table};
use domain::tool::{Annotations, CallError, Tool, ToolKind, ToolRequest, ToolResult};
use ports::shares::{Share, Shares};

/// The maximum number of bytes a server may send for one statement, and in one packet.
const RECEIVED_BYTES: u64 = 8 * 1024 * 1024;
const PACKET_BYTES: usize = 4 * 1024 * 1024;
/// Stack size of the parser thread, in bytes; it is committed only as far as it is used.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// The extra time a database has beyond its own timeout before its connection is dropped.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum length of an error, and of the columns listed with it, in characters.
const FAILURE_CHARS: usize = 300;
const COLUMNS_CHARS: usize = 1_000;
/// Timeout of reading the columns of a table.
const COLUMNS_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of statements that run at once on one database server: each has a connection of its own, and
/// servers accept about a hundred, from all programs.
const CONNECTIONS_MAX: usize = 8;
/// The shortest remaining time in which a statement still begins.
const TIME_MIN: Duration = Duration::from_millis(10);

/// One database.
pub struct Database {
    name: String,
    reads: Tables,
    changes: Tables,
    rows: usize,
    timeout: Duration,
    driver: Box<dyn Driver>,
    columns: Columns,
    /// The permits of its statements, shared by members.
    permits: Shares,
}

/// Names of tables as in the settings, by their normalized key.
type Tables = BTreeMap<String, String>;

/// The rights on one database.
#[derive(Debug, Clone)]
pub struct Rights {
    /// Its name for members.
    pub name: String,
    /// Tables that may be read; with the schema if it is not the default one.
    pub reads: Vec<String>,
    /// Tables that may be changed.
    pub changes: Vec<String>,
    /// Maximum number of rows of an answer, at least 1.
    pub rows: usize,
    /// Timeout of one statement.
    pub timeout: Duration,
}

/// The driver of a kind of database.
#[async_trait]
trait Driver: Send + Sync {
    fn engine(&self) -> Engine;

    /// Runs one statement that was parsed and allowed. Dropping the future cancels it. The driver keeps the permit until
    /// the statement ends.
    async fn run(&self, statement: Understood, asked: Asked, share: Share) -> Result<Rows, String>;
}

/// The bounds of one statement.
#[derive(Debug, Clone, Copy)]
struct Asked {
    rows: usize,
    within: Duration,
}

impl Database {
    /// Creates a database for `sqlite:path`, `postgres://...`, `mysql://...` or `mariadb://...`, without connecting.
    ///
    /// # Errors
    /// The address has none of these forms.
    pub fn new(rights: Rights, url: &str) -> Result<Self, String> {
        let driver: Box<dyn Driver> = match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "sqlite" => {
                let path = url.trim_start_matches("sqlite:");
                Box::new(Sqlite { path: path.strip_prefix("//").unwrap_or(path).into() })
            }
            "postgres" | "postgresql" => Box::new(Postgres::new(url)?),
            "mysql" | "mariadb" => Box::new(Mysql::new(url)?),
            _ => return Err("its url must begin with sqlite:, postgres://, mysql:// or mariadb://".to_owned()),
        };
        let Rights { name, reads, changes, rows, timeout } = rights;
        let engine = driver.engine();
        let by_key = |names: Vec<String>| names.into_iter().map(|name| (engine.key(&name), name)).collect();
        let (reads, changes) = (by_key(reads), by_key(changes));
        let permits = permits_of(engine);
        Ok(Self { name, reads, changes, rows, timeout, driver, columns: Columns::default(), permits })
    }

    /// Returns its name for members.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one row of each readable table, to check the configuration.
    ///
    /// # Errors
    /// The first failure.
    pub async fn try_out(&self) -> Result<(), String> {
        for (key, table) in &self.reads {
            let sql = format!("SELECT * FROM {} LIMIT 1", self.driver.engine().quoted(table));
            let statement = Understood {
                sql,
                reads: BTreeSet::from([key.clone()]),
                changes: None,
                fields: BTreeSet::new(),
                casts: false,
            };
            let (share, within) = self.permit(self.timeout, None).await?;
            let ran = timeout(within + GRACE, self.driver.run(statement, Asked { rows: 1, within }, share)).await;
            ran.unwrap_or_else(|_| Err("no answer in time".to_owned())).map_err(|error| format!("{table}: {error}"))?;
        }
        Ok(())
    }

    /// Waits for a permit of this person. Returns it with the rest of the time, which the wait is part of.
    ///
    /// # Errors
    /// No permit is free in time.
    async fn permit(&self, within: Duration, whose: Option<&Person>) -> Result<(Share, Duration), String> {
        let begun = Instant::now();
        let share = timeout(within, self.permits.wait(whose)).await.ok();
        let left = within.saturating_sub(begun.elapsed());
        let permit = share.filter(|_| left >= TIME_MIN).map(|share| (share, left));
        permit.ok_or_else(|| "too many statements run at the same time: try again later".to_owned())
    }

    /// Returns the columns of the tables a statement was allowed to read, so that the model can correct its names.
    /// Empty if they cannot be read.
    async fn told_columns(&self, tables: &BTreeSet<String>, whose: Option<&Person>) -> String {
        let told = async {
            let mut text = String::new();
            for (key, table) in self.reads.iter().filter(|(key, _)| tables.contains(*key)) {
                if let Ok(columns) = self.columns_of(key, table, COLUMNS_TIMEOUT, whose).await {
                    // Writing into a string cannot fail.
                    let _ = write!(text, ". Columns of {}.{table}: {}", self.name, columns.join(", "));
                }
            }
            text
        };
        let text = timeout(COLUMNS_TIMEOUT, told).await.unwrap_or_default();
        text.chars().take(COLUMNS_CHARS).collect()
    }

    /// Checks that a statement is allowed, and that its tables are those that the call named.
    fn allow(&self, statement: &Understood, named: &[String], mode: Mode) -> Result<(), String> {
        match (mode, &statement.changes) {
            (Mode::Reads, Some(_)) => {
                return Err("this tool only reads; use db_change to change data".to_owned());
            }
            (Mode::Changes, None) => return Err("this tool only changes data; use db_query to read".to_owned()),
            _ => {}
        }
        let mut touched = BTreeSet::new();
        let read = statement.reads.iter().map(|table| (table, &self.reads, "read"));
        let changed = statement.changes.iter().map(|table| (table, &self.changes, "changed"));
        for (table, rights, done) in read.chain(changed) {
            // System tables are also refused unless the settings name them.
            let Some(known) = rights.get(table) else {
                return Err(format!("the table {table} may not be {done}"));
            };
            touched.insert(format!("{}.{known}", self.name));
        }
        if touched == named.iter().cloned().collect() {
            return Ok(());
        }
        let touched: Vec<&str> = touched.iter().map(String::as_str).collect();
        Err(format!("list exactly the tables of the statement in {RESOURCES}: {}", json!(touched)))
    }
}

/// Creates the permits of statements on such a database.
fn permits_of(engine: Engine) -> Shares {
    // Statements of SQLite run in this process: half of the processors are left to the rest of it. With two permits,
    // one person leaves one.
    let many = match engine {
        Engine::Sqlite => (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(2),
        Engine::Postgres | Engine::Mysql => CONNECTIONS_MAX,
    };
    Shares::new(Arc::new(Semaphore::new(many)))
}

/// Runs the parser on a thread whose stack fits its recursion, which is as deep as a statement is long. The thread keeps
/// the permit until it ends, even if the caller stops waiting, and returns it with the result.
async fn with_room<T: Send + 'static>(
    share: Share,
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<(T, Share), String> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sql".to_owned()).stack_size(STACK_BYTES);
    let unread = || "the statement cannot be parsed".to_owned();
    let reading = move || {
        let result = read().map(|read| (read, share));
        // The receiver is gone if the caller was cancelled.
        drop(sender.send(result));
    };
    thread.spawn(reading).map_err(|_| unread())?;
    receiver.await.unwrap_or_else(|_| Err(unread()))
}

/// The access of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reads,
    Changes,
}

impl Mode {
    /// Returns the first sentence of the tool's description.
    const fn about(self) -> &'static str {
        match self {
            Self::Reads => "Read from a database with one SELECT.",
            Self::Changes => "Change one table of a database.",
        }
    }
}

/// One of the two tools.
pub struct DbTool {
    databases: Arc<[Database]>,
    mode: Mode,
}

/// Creates the tools for these databases: one that reads, and one that changes if any table may be changed.
#[must_use]
pub fn tools(mut databases: Vec<Database>) -> Vec<Box<dyn BuiltInTool>> {
    // All files of SQLite use the same processors.
    let sqlite = permits_of(Engine::Sqlite);
    for database in databases.iter_mut().filter(|database| database.driver.engine() == Engine::Sqlite) {
        database.permits = sqlite.clone();
    }
    let databases: Arc<[Database]> = databases.into();
    let any = |mode| databases.iter().any(|database| !mode_tables(database, mode).is_empty());
    let offered = [Mode::Reads, Mode::Changes].into_iter().filter(|mode| any(*mode));
    offered.map(|mode| Box::new(DbTool { databases: Arc::clone(&databases), mode }) as Box<dyn BuiltInTool>).collect()
}

const fn mode_tables(database: &Database, mode: Mode) -> &Tables {
    match mode {
        Mode::Reads => &database.reads,
        Mode::Changes => &database.changes,
    }
}

#[derive(Deserialize)]
struct Arguments {
    database: String,
    tables: Vec<String>,
    sql: String,
}

impl DbTool {
    async fn run(&self, asked: Arguments, deadline: Duration, whose: Option<&Person>) -> Result<Rows, String> {
        let Arguments { database, tables, sql } = asked;
        let known = self.databases.iter().position(|known| known.name == database);
        let at = known.ok_or_else(|| {
            let names: Vec<&str> = self.databases.iter().map(Database::name).collect();
            format!("there is no database {database:?}; there are {}", names.join(", "))
        })?;
        let (databases, mode) = (Arc::clone(&self.databases), self.mode);
        let database = &self.databases[at];
        let (share, within) = database.permit(database.timeout.min(deadline), whose).await?;
        let end = Instant::now() + within;
        let understood = with_room(share, move || {
            let database = &databases[at];
            let statement = understand(database.driver.engine(), &sql, database.rows.saturating_add(1))?;
            database.allow(&statement, &tables, mode)?;
            Ok(statement)
        });
        let understood = timeout(within, understood).await;
        let (statement, share) =
            understood.unwrap_or_else(|_| Err("parsing the statement takes too long".to_owned()))?;
        let within = end.saturating_duration_since(Instant::now()).max(TIME_MIN);
        let asked = Asked { rows: database.rows, within };
        let reads = statement.reads.clone();
        let Ok(ran) = timeout(within + GRACE, database.driver.run(statement, asked, share)).await else {
            return Err("the database did not answer in time".to_owned());
        };
        match ran {
            Err(reason) => {
                let reason: String = reason.chars().take(FAILURE_CHARS).collect();
                database.columns.doubt();
                Err(format!("{reason}{}", database.told_columns(&reads, whose).await))
            }
            rows => rows,
        }
    }
}

#[async_trait]
impl BuiltInTool for DbTool {
    fn tool(&self) -> Tool {
        let (name, statements) = match self.mode {
            Mode::Reads => ("db_query", "One SELECT"),
            Mode::Changes => ("db_change", "One INSERT, UPDATE or DELETE"),
        };
        let mut about = format!("{} Tables:", self.mode.about());
        for database in self.databases.iter() {
            for table in mode_tables(database, self.mode).values() {
                // Writing into a string cannot fail.
                let _ = write!(about, " {}.{table}", database.name);
            }
        }
        let names: Vec<&str> = self.databases.iter().map(Database::name).collect();
        let schema = json!({"type": "object", "required": ["database", RESOURCES, "sql"], "additionalProperties": false, "properties": {
            "database": {"type": "string", "enum": names},
            RESOURCES: {"type": "array", "items": {"type": "string"}, "maxItems": 20,
                "description": "Every table that the statement names, written database.table"},
            "sql": {"type": "string", "maxLength": statement::STATEMENT_BYTES,
                "description": format!("{statements}; tables without the name of the database, names with blanks in quotes, values written out")},
        }});
        let tool = reads(name, &about, schema);
        let changes = self.mode == Mode::Changes;
        let annotations =
            Annotations { read_only: Some(!changes), destructive: changes.then_some(true), ..tool.annotations };
        Tool { kind: ToolKind::Db, annotations, ..tool }
    }

    async fn outline(&self) -> Option<Arc<Outline>> {
        let refreshed = (0..self.databases.len()).map(|at| Columns::refresh(&self.databases, at));
        join_all(refreshed).await;
        let tables = self.databases.iter().flat_map(|database| {
            mode_tables(database, self.mode).iter().map(|(key, table)| Table {
                database: database.name.clone(),
                name: table.clone(),
                columns: database.columns.of(key),
            })
        });
        Some(Arc::new(Outline { about: self.mode.about().to_owned(), tables: tables.collect() }))
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let asked: Arguments = arguments(request)?;
        let whose = request.on_behalf.as_ref().map(|whose| &whose.person);
        Ok(match self.run(asked, request.deadline, whose).await {
            Ok(rows) => ToolResult::text(rows.shown()),
            Err(reason) => ToolResult::failure(reason.chars().take(FAILURE_CHARS + COLUMNS_CHARS).collect::<String>()),
        })
    }
}
