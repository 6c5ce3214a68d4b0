//! A shop with a forbidden table on each kind of database, and helpers to query it.

use std::fmt::Write as _;
use std::time::Duration;

use domain::ids::{Door, Person, Place};
use domain::tool::testing::on_behalf;
use domain::tool::{CallErrorKind, Effect, OnBehalf, ToolRequest};
use mysql_async::prelude::Queryable;
use ports::ToolServer;
use serde_json::{Value, json};

use domain::tool::outline::Table;
use tempfile::TempDir;
use tools::BuiltIns;
use tools::db_query::{self, Database, Rights};

use crate::server::{self, Server};

/// The content of the forbidden table.
pub const CANARY: &str = "S3CR3T-W0RD";

const SETUP: [&str; 8] = [
    "CREATE TABLE orders (id INTEGER, item VARCHAR(100), price INTEGER)",
    "CREATE TABLE log (id INTEGER, note VARCHAR(100))",
    "CREATE TABLE secret (id INTEGER, word VARCHAR(100))",
    "INSERT INTO orders VALUES (1, 'tea', 3), (2, 'cof|fee', 5), (3, NULL, 7)",
    "INSERT INTO log VALUES (1, 'first')",
    "INSERT INTO secret VALUES (1, 'S3CR3T-W0RD')",
    "CREATE TABLE \"order lines\" AS SELECT id, item AS \"the item\", price AS \"order\" FROM orders",
    "CREATE VIEW cheap AS SELECT item FROM orders WHERE price < 5",
];

/// One database with its tools.
pub struct Shop {
    pub kind: &'static str,
    pub tools: BuiltIns,
    raw: Raw,
    _server: Option<Server>,
    _dir: TempDir,
}

/// The database without the tools.
enum Raw {
    Sqlite(std::path::PathBuf),
    Postgres(String),
    Mysql(String),
}

impl Shop {
    pub async fn sqlite() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("shop.db");
        Self::open("sqlite", format!("sqlite:{}", path.display()), Raw::Sqlite(path.clone()), None, dir).await
    }

    pub async fn postgres() -> Self {
        let server = server::postgres().await;
        let url = server.url.clone();
        Self::open("postgres", url.clone(), Raw::Postgres(url), Some(server), TempDir::new().unwrap()).await
    }

    pub async fn mariadb() -> Self {
        let server = server::mariadb().await;
        let url = server.url.clone();
        let own = url.replace("mysql://", "mariadb://");
        Self::open("mariadb", own, Raw::Mysql(url), Some(server), TempDir::new().unwrap()).await
    }

    /// Gives statements more time than a test takes.
    pub fn patient(self) -> Self {
        let (Raw::Mysql(url) | Raw::Postgres(url)) = &self.raw else { panic!("it is no server") };
        Self { tools: tools(url, Duration::from_hours(1)), ..self }
    }

    async fn open(kind: &'static str, url: String, raw: Raw, server: Option<Server>, dir: TempDir) -> Self {
        for sql in SETUP {
            let sql = if kind == "mariadb" { sql.replace('"', "`") } else { sql.to_owned() };
            raw.run(&sql).await;
        }
        let tools = tools(&url, Duration::from_secs(2));
        Self { kind, tools, raw, _server: server, _dir: dir }
    }

    /// Makes one call; returns the text, and true for an error.
    pub async fn call(&self, tool: &str, tables: &[&str], sql: &str) -> (String, bool) {
        self.call_for(None, Duration::from_secs(10), tool, tables, sql).await
    }

    /// Reads the orders for a member.
    pub async fn asked_by(&self, member: &str, deadline: Duration, sql: &str) -> (String, bool) {
        const DOOR: Door = Door::new("d");
        let whose = on_behalf(Person::new(DOOR, member), Place::new(DOOR, "1"));
        self.call_for(Some(whose), deadline, "db_query", &["shop.orders"], sql).await
    }

    pub async fn call_for(
        &self,
        on_behalf: Option<OnBehalf>,
        deadline: Duration,
        tool: &str,
        tables: &[&str],
        sql: &str,
    ) -> (String, bool) {
        let Value::Object(arguments) = json!({"database": "shop", "tables": tables, "sql": sql}) else {
            unreachable!()
        };
        let request = ToolRequest::new(tool, arguments, Effect::Changes, deadline);
        match self.tools.call(&ToolRequest { on_behalf, ..request }, None).await {
            Ok(result) => (result.to_text(), result.is_error),
            Err(error) => {
                assert_eq!(error.kind, CallErrorKind::InvalidArguments, "{error}");
                (error.to_string(), true)
            }
        }
    }

    pub async fn query(&self, tables: &[&str], sql: &str) -> String {
        let (text, is_error) = self.call("db_query", tables, sql).await;
        assert!(!is_error, "{}: {sql}: {text}", self.kind);
        text
    }

    /// Returns the tables that a tool reaches, each with its columns.
    pub async fn outline(&self, tool: &str) -> Vec<(String, String)> {
        let outline = self.tools.outline(tool).await.expect("a tool for databases");
        let told = |table: &Table| (format!("{}.{}", table.database, table.name), table.columns.join(", "));
        outline.tables.iter().map(told).collect()
    }

    /// Replaces the file of a `SQLite` database by a pipe without a writer.
    pub fn becomes_a_pipe(&self) {
        let Raw::Sqlite(path) = &self.raw else { panic!("it has no file") };
        std::fs::remove_file(path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    /// Returns the result of a statement without the tools.
    pub async fn raw_run(&self, sql: &str) -> String {
        self.raw.run(sql).await
    }

    /// Runs a statement without the tools.
    pub async fn make(&self, sql: &str) {
        self.raw.run(sql).await;
    }

    /// Returns the content of all tables, without the tools.
    pub async fn contents(&self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["orders", "log", "secret"] {
            all.push(self.raw.run(&format!("SELECT * FROM {table} ORDER BY id")).await);
        }
        all.push(self.raw.run(TABLES[self.kind_index()]).await);
        all
    }

    fn kind_index(&self) -> usize {
        match self.raw {
            Raw::Sqlite(_) => 0,
            Raw::Postgres(_) => 1,
            Raw::Mysql(_) => 2,
        }
    }
}

/// Returns the tools for a shop, with the timeout of its statements.
fn tools(url: &str, timeout: Duration) -> BuiltIns {
    let rights = Rights {
        name: "shop".to_owned(),
        reads: vec!["orders".to_owned(), "cheap".to_owned(), "order lines".to_owned()],
        changes: vec!["log".to_owned()],
        rows: 2,
        timeout,
    };
    BuiltIns::new(db_query::tools(vec![Database::new(rights, url).unwrap()]))
}

/// Lists all objects of the database.
const TABLES: [&str; 3] = [
    "SELECT name FROM sqlite_master ORDER BY name",
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname",
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop' ORDER BY table_name",
];

impl Raw {
    async fn run(&self, sql: &str) -> String {
        match self {
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                let mut prepared = connection.prepare(sql).unwrap();
                let columns = prepared.column_count();
                let mut rows = prepared.query([]).unwrap();
                let mut text = String::new();
                while let Some(row) = rows.next().unwrap() {
                    for at in 0..columns {
                        write!(text, "{:?} ", row.get::<_, rusqlite::types::Value>(at).unwrap()).unwrap();
                    }
                }
                text
            }
            Self::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                format!("{:?}", client.simple_query(sql).await.unwrap())
            }
            Self::Mysql(url) => {
                let mut connection = mysql_async::Conn::from_url(url).await.unwrap();
                let rows: Vec<mysql_async::Row> = connection.query(sql).await.unwrap();
                format!("{:?}", rows.into_iter().map(mysql_async::Row::unwrap).collect::<Vec<_>>())
            }
        }
    }
}
