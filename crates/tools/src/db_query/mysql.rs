//! The driver of `MySQL` and `MariaDB`.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Value};
use tokio::sync::oneshot;

use super::rows::Rows;
use super::session::{self, Failed, Session, StopAnswer, unfit};
use super::statement::Understood;
use super::{Asked, Driver, Engine, PACKET_BYTES};
use ports::shares::Share;

pub(super) struct Mysql {
    opts: Opts,
}

impl Mysql {
    pub(super) fn new(url: &str) -> Result<Self, String> {
        // Both servers use the same protocol.
        let url = url.strip_prefix("mariadb://").map_or_else(|| url.to_owned(), |rest| format!("mysql://{rest}"));
        let opts = Opts::from_url(&url).map_err(|_| "its url is not a MySQL address".to_owned())?;
        let opts = OptsBuilder::from_opts(opts).max_allowed_packet(Some(PACKET_BYTES)).prefer_socket(false);
        Ok(Self { opts: opts.into() })
    }
}

#[async_trait]
impl Driver for Mysql {
    fn engine(&self) -> Engine {
        Engine::Mysql
    }

    async fn run(&self, statement: Understood, asked: Asked, share: Share) -> Result<Rows, String> {
        let opts = self.opts.clone();
        let open = async move {
            let connection = Conn::new(opts.clone()).await.map_err(|error| told(&error))?;
            let id = connection.id();
            let stop = move || stop(opts.clone(), id).boxed();
            let (filled, full) = oneshot::channel();
            let statement = execute(connection, statement, asked, filled).boxed();
            Ok(Session { statement, full, stop: Box::new(stop) })
        };
        session::run(open, asked.within, share).await
    }
}

/// The server's error for a connection that it does not have (`ER_NO_SUCH_THREAD`).
const NO_SUCH_THREAD: u16 = 1094;

/// Tells the server to end the statement of a connection: `MySQL` has no timeout for statements that change data.
async fn stop(opts: Opts, id: u32) -> StopAnswer {
    let kill = async {
        let mut connection = Conn::new(opts).await?;
        connection.query_drop(format!("KILL QUERY {id}")).await?;
        connection.disconnect().await
    };
    match kill.await {
        Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_THREAD => StopAnswer::Ended,
        Ok(()) | Err(mysql_async::Error::Server(_)) => StopAnswer::Told,
        Err(_) => StopAnswer::Unreached,
    }
}

async fn execute(
    mut connection: Conn,
    statement: Understood,
    asked: Asked,
    filled: oneshot::Sender<Rows>,
) -> Result<Rows, Failed> {
    bound(&mut connection, asked.within).await?;
    let changes = statement.changes.is_some();
    let mode = if changes { "READ WRITE" } else { "READ ONLY" };
    // Strings are literal, names have one kind of quote, and no multi-byte character contains a quote.
    let before = [
        "SET NAMES utf8mb4",
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
        &format!("START TRANSACTION {mode}"),
    ];
    for set in before {
        connection.query_drop(set).await.map_err(|error| failed(&error))?;
    }
    let (mut rows, mut filled) = (Rows::of_at_most(asked.rows), Some(filled));
    let mut result = connection.query_iter(statement.sql).await.map_err(|error| failed(&error))?;
    rows.columns = result.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
    while let Some(row) = result.next().await.map_err(|error| failed(&error))? {
        let has_room = rows.push((0..row.len()).map(|at| row.as_ref(at).and_then(text)));
        if let Some(filled) = filled.take_if(|_| !has_room) {
            // The receiver is gone if the caller was cancelled.
            drop(filled.send(std::mem::take(&mut rows)));
        }
    }
    rows.changed = changes.then(|| result.affected_rows());
    drop(result);
    connection.query_drop("COMMIT").await.map_err(|error| failed(&error))?;
    // The statement is committed, so an error here has no effect.
    let _ = connection.disconnect().await;
    Ok(rows)
}

/// Sets the statement timeout. The servers name the setting differently; one of the two must succeed.
async fn bound(connection: &mut Conn, within: Duration) -> Result<(), Failed> {
    let seconds = format!("SET SESSION max_statement_time = {:.3}", within.as_secs_f64());
    if connection.query_drop(seconds).await.is_ok() {
        return Ok(());
    }
    let milliseconds = format!("SET SESSION max_execution_time = {}", within.as_millis().max(1));
    connection.query_drop(milliseconds).await.map_err(|error| failed(&error))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

/// The errors whose messages name no values of rows: access, names, syntax, missing and too large values, constraints,
/// resources, timeouts, and messages that triggers of the operator write. See
/// <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>.
const TOLD: [u16; 52] = [
    1040, 1041, 1044, 1045, 1046, 1048, 1049, 1051, 1052, 1054, 1055, 1056, 1060, 1064, 1066, 1109, 1111, 1136, 1140,
    1142, 1143, 1146, 1148, 1205, 1213, 1221, 1222, 1226, 1227, 1235, 1241, 1242, 1247, 1248, 1264, 1267, 1271, 1290,
    1305, 1317, 1364, 1365, 1406, 1451, 1452, 1582, 1630, 1644, 1792, 1969, 3024, 3065,
];

fn failed(error: &mysql_async::Error) -> Failed {
    match error {
        mysql_async::Error::Server(_) => Failed::AtServer(told(error)),
        _ => Failed::Unknown(told(error)),
    }
}

/// Returns the server's error message, or that of the connection. A message that may quote values is replaced by its
/// code: a view may hide their rows, or the table may be changed only.
fn told(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(error) if TOLD.contains(&error.code) => error.message.clone(),
        mysql_async::Error::Server(error) => unfit(error.code),
        other => other.to_string(),
    }
}
