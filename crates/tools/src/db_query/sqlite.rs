//! The driver of `SQLite` files. Its authorizer also checks each table access.

mod heap;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::config::DbConfig;
use rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use self::heap::{HEAP_BYTES, Running};
use super::allowed::is_known;
use super::names::DEFINED_PREFIX;
use super::rows::Rows;
use super::session::unfit;
use super::statement::Understood;
use super::{Asked, Driver, Engine};
use ports::shares::Share;

/// Virtual machine steps between two checks of the deadline.
const STEPS: i32 = 100;
/// Maximum size of a value, in bytes.
const VALUE_BYTES: i32 = 1024 * 1024;
/// Maximum growth of the file by one statement, in bytes.
const GROWTH_BYTES: u64 = 64 * 1024 * 1024;

pub(super) struct Sqlite {
    pub path: PathBuf,
}

#[async_trait]
impl Driver for Sqlite {
    fn engine(&self) -> Engine {
        Engine::Sqlite
    }

    async fn run(&self, statement: Understood, asked: Asked, share: Share) -> Result<Rows, String> {
        let path = self.path.clone();
        let ran = spawn_blocking(move || {
            // The permit is returned when the statement ends, even if the caller stopped waiting.
            let _share = share;
            run_in_heap(&path, &statement, asked)
        });
        ran.await.unwrap_or_else(|_| Err("it broke".to_owned()))
    }
}

/// Runs a statement. If it reads and memory runs out, it may run again.
fn run_in_heap(path: &Path, statement: &Understood, asked: Asked) -> Result<Rows, String> {
    let (mut running, end) = (Running::begin(), Instant::now() + asked.within);
    // The model decides whether to repeat a change.
    let is_read = statement.changes.is_none();
    loop {
        let failure = match run(path, statement, asked, &running, end) {
            Ok(rows) => return Ok(rows),
            Err(failure) => failure,
        };
        if running.is_stopped() {
            let again = if is_read { running.begin_again(end) } else { None };
            running = again.ok_or_else(out_of_memory)?;
            continue;
        }
        let is_out_of_memory = failure.error.sqlite_error_code() == Some(ErrorCode::OutOfMemory);
        if !is_read || !is_out_of_memory || !running.make_room(end) {
            return Err(reason(&failure));
        }
    }
}

/// A statement that failed.
struct Failure {
    error: rusqlite::Error,
    /// True if it failed while it worked on rows.
    stepped: bool,
}

impl Failure {
    const fn of_a_step(error: rusqlite::Error) -> Self {
        Self { error, stepped: true }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self { error, stepped: false }
    }
}

fn run(path: &Path, statement: &Understood, asked: Asked, running: &Running, end: Instant) -> Result<Rows, Failure> {
    let access =
        if statement.changes.is_some() { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    // Opening a pipe blocks until a writer opens it.
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(rusqlite::Error::InvalidPath(path.to_owned()).into());
    }
    let mut connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(asked.within.min(Duration::from_secs(5)))?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.execute_batch(&format!("PRAGMA temp_store = MEMORY; PRAGMA hard_heap_limit = {HEAP_BYTES}"))?;
    // An unknown name is an error, never a string; and the file cannot cause anything but reading tables.
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    ] {
        connection.set_db_config(config, on)?;
    }
    let has_to_stop = running.has_to_stop();
    connection.progress_handler(STEPS, Some(move || has_to_stop() || Instant::now() >= end))?;
    if statement.changes.is_some() {
        bound_growth(&connection)?;
    }
    let (reads, changes) = (statement.reads.clone(), statement.changes.clone());
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if is_allowed(&context, &reads, changes.as_deref()) { Authorization::Allow } else { Authorization::Deny }
    }))?;
    let mut prepared = connection.prepare(&statement.sql)?;
    let mut rows = Rows::of_at_most(asked.rows);
    if statement.changes.is_some() {
        rows.changed = Some(prepared.execute([]).map_err(Failure::of_a_step)? as u64);
        return Ok(rows);
    }
    rows.columns = prepared.column_names().map(str::to_owned).collect();
    let columns = rows.columns.len();
    let mut found = prepared.query([])?;
    while let Some(row) = found.next().map_err(Failure::of_a_step)? {
        let cells: Vec<Option<String>> = (0..columns).map(|at| row.get_ref(at).map(text)).collect::<Result<_, _>>()?;
        if !rows.push(cells.into_iter()) {
            break;
        }
    }
    Ok(rows)
}

/// Bounds the growth of the file through this connection.
fn bound_growth(connection: &Connection) -> rusqlite::Result<()> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0)).map(u64::from);
    let most = number("page_count")? + GROWTH_BYTES / number("page_size")?.max(1);
    connection.execute_batch(&format!("PRAGMA max_page_count = {most}"))
}

fn out_of_memory() -> String {
    let most = megabytes(HEAP_BYTES);
    format!("the running statements need more than {most} MiB of memory: compare, sort or join fewer rows")
}

const fn megabytes(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}

/// Returns the reason for a failure.
fn reason(Failure { error, stepped }: &Failure) -> String {
    match error.sqlite_error() {
        Some(failure) => match failure.code {
            ErrorCode::OutOfMemory => out_of_memory(),
            ErrorCode::DiskFull => {
                let most = megabytes(GROWTH_BYTES);
                format!("the statement makes the file more than {most} MiB larger, or the disk is full: add fewer rows")
            }
            ErrorCode::OperationInterrupted => "the statement takes too long: request fewer rows".to_owned(),
            // The message of any other function, or of a trigger, may quote values of rows.
            ErrorCode::Unknown if *stepped => unfit(failure.extended_code),
            ErrorCode::ConstraintViolation if failure.extended_code == SQLITE_CONSTRAINT_TRIGGER => {
                unfit(failure.extended_code)
            }
            _ => error.to_string(),
        },
        None if matches!(error, rusqlite::Error::InvalidPath(_)) => "its file is no regular file".to_owned(),
        None => error.to_string(),
    }
}

/// True if the library may perform this action for a statement that reads and changes these tables. Access to a view
/// covers the tables behind it; a trigger may change its tables. A name from `WITH` appears as a table if none of its
/// columns is read.
fn is_allowed(context: &AuthContext<'_>, reads: &BTreeSet<String>, changes: Option<&str>) -> bool {
    let schema = context.database_name.unwrap_or("main").to_ascii_lowercase();
    let is = |name: &str, table: &str| match name.split_once('.') {
        Some((named, name)) => named == schema && name.eq_ignore_ascii_case(table),
        None => name.eq_ignore_ascii_case(table),
    };
    let named = |table: &str| reads.iter().any(|name| is(name, table));
    let changed = |table: &str| changes.is_some_and(|name| is(name, table));
    let within = context.accessor.is_some_and(named);
    let own = |table: &str| changed(table) || (changes.is_some() && context.accessor.is_some());
    match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => changes.is_some(),
        AuthAction::Read { table_name, column_name } => {
            let defined = table_name.is_empty() || (column_name.is_empty() && table_name.starts_with(DEFINED_PREFIX));
            within || named(table_name) || changed(table_name) || defined
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            is_known(Engine::Sqlite, &name) || matches!(name.as_str(), "like" | "glob" | "->" | "->>")
        }
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => own(table_name),
        _ => false,
    }
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Some(format!("[{} bytes]", bytes.len())),
    }
}

#[cfg(test)]
mod tests;
