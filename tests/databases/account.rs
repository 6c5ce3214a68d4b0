//! Compares the tables of a statement by the gate with those by the database itself, for thousands of statements per
//! kind of database.
//!
//! - Mutations of the gate are compared as well, until the comparison detects what they let through; otherwise it would
//!   prove nothing. One mutation trusts the parser; for `SQLite` and `MariaDB` another one sends the original text. A
//!   statement that the gate accepts for `PostgreSQL` means the same as its original, since SQL's words are refused as
//!   names. Of the generated statements, `MariaDB` gets only those that the gate wrote, since some of the others crash
//!   its server; it gets one original whose comment it runs.
//! - A plan omits tables that it does not need, so the locks that a server takes while planning are the complete
//!   account. For `SQLite`, a missing table makes the statement fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use mysql_async::prelude::Queryable;
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use sqlparser::ast::{ObjectName, Query, Statement, Visit, Visitor};
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;
use tokio_postgres::SimpleQueryMessage;
use tools::db_query::{Engine, Understood, understand};

use crate::corpus::{TABLES, statements};
use crate::server;

/// Reads a table that the parser takes for an alias of what `WITH` defines.
const TRICK: &str = "WITH \"only\" AS (SELECT 1 AS a) SELECT * FROM only secret";
/// Reads a table in what the parser takes for a comment, in `MariaDB`.
const MARIADB_TRICK: &str = "SELECT orders.id FROM orders /*M! , secret */";
/// Number of statements per kind of database.
const MANY: usize = 5_000;
/// Minimum number of statements that are accepted and run; fewer would prove little.
const COMPARED_LEAST: usize = 1_500;

/// The tables by the database's own account.
#[derive(Default)]
struct Account {
    touched: BTreeSet<String>,
    changed: BTreeSet<String>,
}

#[derive(Default)]
struct Counts {
    accepted: usize,
    refused: usize,
    failed: usize,
    compared: usize,
    mismatches: Vec<String>,
}

/// Returns the statement if the gate lets it reach only tables of the test.
fn accepted(engine: Engine, sql: &str) -> Option<Understood> {
    let statement = understand(engine, sql, 10).ok()?;
    let known = |name: &String| {
        let name = ["public.", "main.", "shop."].iter().find_map(|own| name.strip_prefix(own)).unwrap_or(name);
        TABLES.contains(&name) || name == "other.orders"
    };
    let all = statement.reads.iter().chain(&statement.changes).all(known);
    all.then_some(statement)
}

/// Returns the gate's account, including the tables behind a view.
fn own(statement: &Understood) -> (BTreeSet<String>, BTreeSet<String>) {
    let plain = |name: &String| {
        let own = ["public.", "main.", "shop."].iter().find_map(|own| name.strip_prefix(own));
        own.unwrap_or(name).to_owned()
    };
    let mut changed: BTreeSet<String> = statement.changes.iter().map(plain).collect();
    if changed.contains("cheap") {
        changed.insert("orders".to_owned());
    }
    let mut touched: BTreeSet<String> = statement.reads.iter().map(plain).chain(changed.clone()).collect();
    if touched.contains("cheap") {
        touched.insert("orders".to_owned());
    }
    (touched, changed)
}

impl Counts {
    fn compare(&mut self, sql: &str, statement: &Understood, account: Result<Account, String>) {
        let Ok(account) = account else {
            self.failed += 1;
            return;
        };
        self.compared += 1;
        let (touched, changed) = own(statement);
        if account.touched != touched || account.changed != changed {
            let Account { touched: theirs, changed: changes } = account;
            self.mismatches.push(format!(
                "{sql}\n  sent: {}\n  gate: {touched:?} changes {changed:?}; database: {theirs:?} changes {changes:?}",
                statement.sql
            ));
        }
    }

    /// Checks that the comparison detects what a mutation lets through.
    fn fails(&self, kind: &str) {
        let Self { failed, compared, mismatches, .. } = self;
        println!("{kind}: {failed} refused by the database, {compared} compared, {} mismatches", mismatches.len());
        assert!(!mismatches.is_empty(), "{kind}: nothing is found");
    }

    fn judge(&self, kind: &str) {
        let Self { accepted, refused, failed, compared, mismatches } = self;
        println!(
            "{kind}: {accepted} accepted, {refused} refused, {failed} refused by the database, {compared} compared, {} mismatches",
            mismatches.len()
        );
        assert!(mismatches.is_empty(), "{}", mismatches[..mismatches.len().min(10)].join("\n"));
        assert!(*compared >= COMPARED_LEAST, "too few statements were compared");
    }
}

/// The gate and its mutations, each with its findings.
#[derive(Default)]
struct Gates {
    own: Counts,
    as_written: Counts,
    believing: Counts,
}

impl Gates {
    /// Returns what is sent to the database for one statement, and the gate that it comes from.
    fn sent(&mut self, engine: Engine, sql: &str) -> Vec<(Gate, Understood)> {
        let mut sent = Vec::new();
        if let Some(statement) = accepted(engine, sql) {
            self.own.accepted += 1;
            let written = engine == Engine::Sqlite || sql == MARIADB_TRICK;
            if written && self.as_written.mismatches.is_empty() {
                sent.push((Gate::AsWritten, Understood { sql: sql.to_owned(), ..statement.clone() }));
            }
            sent.push((Gate::Own, statement));
        } else {
            self.own.refused += 1;
        }
        if engine != Engine::Mysql && self.believing.mismatches.is_empty() {
            sent.extend(believed(engine, sql).map(|statement| (Gate::Believing, statement)));
        }
        sent
    }

    fn compare(&mut self, gate: Gate, sql: &str, statement: &Understood, account: Result<Account, String>) {
        match gate {
            Gate::Own => self.own.compare(sql, statement, account),
            Gate::AsWritten => self.as_written.compare(sql, statement, account),
            Gate::Believing => self.believing.compare(sql, statement, account),
        }
    }

    fn judge(&self, engine: Engine, kind: &str) {
        self.own.judge(kind);
        if engine != Engine::Postgres {
            self.as_written.fails(&format!("{kind}, each statement as it was written"));
        }
        if engine != Engine::Mysql {
            self.believing.fails(&format!("{kind}, the parser believed"));
        }
    }
}

#[derive(Clone, Copy)]
enum Gate {
    Own,
    AsWritten,
    Believing,
}

/// Returns the result of a gate that trusts the parser: all tables except those that `WITH` defines anywhere.
fn believed(engine: Engine, sql: &str) -> Option<Understood> {
    #[derive(Default)]
    struct Names {
        tables: BTreeSet<String>,
        defined: BTreeSet<String>,
    }
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
            let parts = relation.0.iter().filter_map(|part| part.as_ident());
            self.tables.insert(parts.map(|part| part.value.clone()).collect::<Vec<_>>().join("."));
            ControlFlow::Continue(())
        }

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let defined = query.with.iter().flat_map(|with| &with.cte_tables);
            self.defined.extend(defined.map(|cte| cte.alias.name.value.clone()));
            ControlFlow::Continue(())
        }
    }
    let dialect: &dyn Dialect = match engine {
        Engine::Sqlite => &SQLiteDialect {},
        Engine::Postgres => &PostgreSqlDialect {},
        Engine::Mysql => &MySqlDialect {},
    };
    let parsed = Parser::parse_sql(dialect, sql).ok()?;
    let [statement @ Statement::Query(_)] = parsed.as_slice() else { return None };
    let mut names = Names::default();
    let _ = statement.visit(&mut names);
    let reads: BTreeSet<String> = names.tables.difference(&names.defined).cloned().collect();
    let known = reads.iter().all(|name| TABLES.contains(&name.as_str()));
    known.then(|| Understood { sql: sql.to_owned(), reads, changes: None, fields: BTreeSet::new(), casts: false })
}

/// Returns the statements that create the tables, with a second schema where possible.
fn setup(engine: Engine) -> Vec<String> {
    let quote = if engine == Engine::Postgres { '"' } else { '`' };
    let columns = "(id INTEGER, note VARCHAR(100))";
    let tables = TABLES.iter().filter(|name| **name != "cheap");
    let mut all: Vec<String> = tables.map(|name| format!("CREATE TABLE {quote}{name}{quote} {columns}")).collect();
    all.push("CREATE VIEW cheap AS SELECT id, note FROM orders WHERE id < 5".to_owned());
    match engine {
        Engine::Postgres => all.push("CREATE SCHEMA other".to_owned()),
        Engine::Mysql => all.push("CREATE DATABASE other".to_owned()),
        Engine::Sqlite => return all,
    }
    all.push(format!("CREATE TABLE other.orders {columns}"));
    all
}

#[test]
fn sqlite_and_the_gate_name_the_same_tables() {
    let (engine, mut gates) = (Engine::Sqlite, Gates::default());
    let (mut all, seen) = (sqlite_without(None), Arc::new(Mutex::new(Account::default())));
    let watched = Arc::clone(&seen);
    all.authorizer(Some(move |context: AuthContext<'_>| {
        note(&context.action, &mut watched.lock());
        Authorization::Allow
    }))
    .unwrap();
    let without: Vec<_> = TABLES.iter().map(|table| (*table, sqlite_without(Some(table)))).collect();
    for sql in statements(engine, 1, MANY) {
        for (gate, statement) in gates.sent(engine, &sql) {
            *seen.lock() = Account::default();
            let prepared = all.prepare(&statement.sql).map(drop).map_err(|error| error.to_string());
            let mut account = std::mem::take(&mut *seen.lock());
            for (table, connection) in &without {
                if connection.prepare(&statement.sql).is_err() {
                    account.touched.insert((*table).to_owned());
                }
            }
            gates.compare(gate, &sql, &statement, prepared.map(|()| account));
        }
    }
    gates.judge(engine, "SQLite");
}

/// A database in memory without one of the tables.
fn sqlite_without(table: Option<&str>) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false).unwrap();
    for sql in setup(Engine::Sqlite) {
        connection.execute_batch(&sql).unwrap();
    }
    if let Some(table) = table {
        connection
            .execute_batch(&format!("DROP {} `{table}`", if table == "cheap" { "VIEW" } else { "TABLE" }))
            .unwrap();
    }
    connection
}

fn note(action: &AuthAction<'_>, account: &mut Account) {
    match action {
        AuthAction::Read { table_name, .. } if !table_name.is_empty() && !table_name.starts_with("staffai_with_") => {
            account.touched.insert(table_name.to_ascii_lowercase());
        }
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => {
            account.touched.insert(table_name.to_ascii_lowercase());
            account.changed.insert(table_name.to_ascii_lowercase());
        }
        _ => {}
    }
}

#[tokio::test]
async fn postgres_and_the_gate_name_the_same_tables() {
    let server = server::postgres().await;
    let (client, connection) = tokio_postgres::connect(&server.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for sql in setup(Engine::Postgres) {
        client.batch_execute(&sql).await.unwrap();
    }
    let names = "SELECT c.oid, CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END || relname \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r', 'v', 'm', 'p', 'f')";
    let names: BTreeMap<String, String> = rows(&client.simple_query(names).await.unwrap()).into_iter().collect();
    let mut gates = Gates::default();
    for sql in std::iter::once(TRICK.to_owned()).chain(statements(Engine::Postgres, 2, MANY)) {
        for (gate, statement) in gates.sent(Engine::Postgres, &sql) {
            // A comment at the end ends with its line.
            let asked = format!(
                "BEGIN; EXPLAIN (VERBOSE, FORMAT JSON) {}\n; SELECT relation, mode FROM pg_locks WHERE pid = pg_backend_pid()",
                statement.sql
            );
            let answer = client.simple_query(&asked).await.map_err(|error| error.to_string());
            let account = answer.map(|messages| postgres_account(&messages, &names));
            client.batch_execute("ROLLBACK").await.unwrap();
            gates.compare(gate, &sql, &statement, account);
        }
    }
    gates.judge(Engine::Postgres, "PostgreSQL");
}

fn rows(messages: &[SimpleQueryMessage]) -> Vec<(String, String)> {
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) if row.len() == 2 => Some((row.get(0)?.to_owned(), row.get(1)?.to_owned())),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

/// Returns the locked tables, which must include all that the plan names.
fn postgres_account(messages: &[SimpleQueryMessage], names: &BTreeMap<String, String>) -> Account {
    let mut account = Account::default();
    for (relation, mode) in rows(messages) {
        // Indexes are not included, and the view of locks itself is read as well.
        let Some(name) = names.get(&relation).filter(|name| *name != "pg_catalog.pg_locks") else { continue };
        account.touched.insert(name.clone());
        if mode != "AccessShareLock" {
            account.changed.insert(name.clone());
        }
    }
    let plan = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) if row.len() == 1 => row.get(0),
        _ => None,
    });
    if let Some(plan) = plan.and_then(|plan| serde_json::from_str(plan).ok()) {
        planned(&plan, &mut account.touched);
    }
    account
}

fn planned(plan: &serde_json::Value, touched: &mut BTreeSet<String>) {
    match plan {
        serde_json::Value::Array(parts) => parts.iter().for_each(|part| planned(part, touched)),
        serde_json::Value::Object(parts) => {
            if let (Some(schema), Some(name)) = (parts.get("Schema"), parts.get("Relation Name")) {
                let (schema, name) = (schema.as_str().unwrap(), name.as_str().unwrap());
                touched.insert(if schema == "public" { name.to_owned() } else { format!("{schema}.{name}") });
            }
            parts.values().for_each(|part| planned(part, touched));
        }
        _ => {}
    }
}

#[tokio::test]
async fn mariadb_and_the_gate_name_the_same_tables() {
    let server = server::mariadb().await;
    let mut connection = mysql_async::Conn::from_url(&server.url).await.unwrap();
    for sql in setup(Engine::Mysql) {
        connection.query_drop(sql).await.unwrap();
    }
    for sql in [
        "INSTALL SONAME 'metadata_lock_info'",
        "SET NAMES utf8mb4",
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
    ] {
        connection.query_drop(sql).await.unwrap();
    }
    let mut gates = Gates::default();
    for sql in std::iter::once(MARIADB_TRICK.to_owned()).chain(statements(Engine::Mysql, 3, MANY)) {
        for (gate, statement) in gates.sent(Engine::Mysql, &sql) {
            connection.query_drop("START TRANSACTION").await.unwrap();
            let explained = connection.query_drop(format!("EXPLAIN FORMAT=JSON {}", statement.sql)).await;
            let locks = "SELECT lock_mode, table_schema, table_name FROM information_schema.metadata_lock_info \
                         WHERE thread_id = connection_id() AND lock_type = 'Table metadata lock'";
            let locks: Vec<(String, String, String)> = connection.query(locks).await.unwrap();
            connection.query_drop("ROLLBACK").await.unwrap();
            let account = explained.map_err(|error| error.to_string()).map(|()| mariadb_account(locks));
            gates.compare(gate, &sql, &statement, account);
        }
    }
    gates.judge(Engine::Mysql, "MariaDB");
}

fn mariadb_account(locks: Vec<(String, String, String)>) -> Account {
    let mut account = Account::default();
    for (mode, schema, table) in locks {
        let name = if schema == "shop" { table } else { format!("{schema}.{table}") };
        if mode != "MDL_SHARED_READ" {
            account.changed.insert(name.clone());
        }
        account.touched.insert(name);
    }
    account
}
