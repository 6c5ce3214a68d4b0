//! The driver of `MySQL` and `MariaDB`.

use std::pin::{Pin, pin};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::rows::Rows;
use super::statement::Understood;
use super::{Asked, Driver, Engine, PACKET_BYTES};
use ports::shares::Share;

/// Timeout of telling the server to end a statement, and of its end after that.
const KILL_WITHIN: Duration = Duration::from_secs(5);
/// The number of times that the server is told. After that, the statement counts as ended.
const KILLS_MAX: usize = 12;

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
        let (sender, receiver) = oneshot::channel();
        let session = Session { opts: self.opts.clone(), statement, asked };
        tokio::spawn(async move {
            session.run(sender).await;
            drop(share);
        });
        receiver.await.unwrap_or_else(|_| Err("it broke".to_owned()))
    }
}

/// One statement on a connection of its own. It ends at its timeout, and if its caller is gone: the server is told on a
/// second connection, because it notices no closed connection while a statement runs, and `MySQL` has no timeout for
/// statements that change data.
struct Session {
    opts: Opts,
    statement: Understood,
    asked: Asked,
}

impl Session {
    /// Runs the statement. Returns when the server has ended it, or did not answer for too long.
    async fn run(self, mut caller: oneshot::Sender<Result<Rows, String>>) {
        let end = Instant::now() + self.asked.within;
        let connected = tokio::select! {
            connected = timeout_at(end, Conn::new(self.opts.clone())) => connected,
            () = caller.closed() => return,
        };
        let connection = match connected {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return drop(caller.send(Err(told(&error)))),
            Err(_) => return drop(caller.send(Err("it does not answer".to_owned()))),
        };
        let id = connection.id();
        let mut executed = pin!(execute(connection, self.statement, self.asked));
        let ended = tokio::select! {
            result = &mut executed => Some(result),
            () = caller.closed() => None,
            () = sleep_until(end) => None,
        };
        let result = match ended {
            Some(result) => result,
            None => stopped(&self.opts, id, executed).await,
        };
        // The receiver is gone if the caller was cancelled.
        drop(caller.send(result));
    }
}

/// Tells the server to end the statement of a connection until it did. Repeated, because a statement that begins at the
/// same moment is not ended.
async fn stopped(
    opts: &Opts,
    id: u32,
    mut executed: Pin<&mut impl Future<Output = Result<Rows, String>>>,
) -> Result<Rows, String> {
    let late = || Err("the statement takes too long: request or change fewer rows".to_owned());
    for _ in 0..KILLS_MAX {
        let kill = async {
            let mut connection = Conn::new(opts.clone()).await?;
            connection.query_drop(format!("KILL QUERY {id}")).await?;
            connection.disconnect().await
        };
        // The outcome is that of the statement.
        let _ = timeout(KILL_WITHIN, kill).await;
        if let Ok(result) = timeout(KILL_WITHIN, &mut executed).await {
            return result.or_else(|_| late());
        }
    }
    late()
}

async fn execute(mut connection: Conn, statement: Understood, asked: Asked) -> Result<Rows, String> {
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
        connection.query_drop(set).await.map_err(|error| told(&error))?;
    }
    let mut rows = Rows::of_at_most(asked.rows);
    let mut result = connection.query_iter(statement.sql).await.map_err(|error| told(&error))?;
    rows.columns = result.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
    while let Some(row) = result.next().await.map_err(|error| told(&error))? {
        if !rows.push((0..row.len()).map(|at| row.as_ref(at).and_then(text))) {
            // Unread rows are discarded with the connection.
            return Ok(rows);
        }
    }
    rows.changed = changes.then(|| result.affected_rows());
    drop(result);
    connection.query_drop("COMMIT").await.map_err(|error| told(&error))?;
    // The statement is committed, so an error here has no effect.
    let _ = connection.disconnect().await;
    Ok(rows)
}

/// Sets the statement timeout. The servers name the setting differently; one of the two must succeed.
async fn bound(connection: &mut Conn, within: Duration) -> Result<(), String> {
    let seconds = format!("SET SESSION max_statement_time = {:.3}", within.as_secs_f64());
    if connection.query_drop(seconds).await.is_ok() {
        return Ok(());
    }
    let milliseconds = format!("SET SESSION max_execution_time = {}", within.as_millis().max(1));
    connection.query_drop(milliseconds).await.map_err(|error| told(&error))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

fn told(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(error) => error.message.clone(),
        other => other.to_string(),
    }
}
