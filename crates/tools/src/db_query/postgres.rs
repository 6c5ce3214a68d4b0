//! The driver of `PostgreSQL`.

mod own_code;

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, TryStreamExt, pin_mut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{CancelToken, Client, Config, NoTls, SimpleQueryMessage};

use super::rows::Rows;
use super::session::{self, Failed, Session, StopAnswer, unfit};
use super::statement::Understood;
use super::{Asked, Driver, Engine, RECEIVED_BYTES};
use ports::shares::Share;

pub(super) struct Postgres {
    config: Config,
}

impl Postgres {
    pub(super) fn new(url: &str) -> Result<Self, String> {
        let config = Config::from_str(url).map_err(|_| "its url is not a PostgreSQL address".to_owned())?;
        Ok(Self { config })
    }

    /// Returns a new connection to the server.
    async fn stream(config: &Config) -> Result<TcpStream, String> {
        let [Host::Tcp(host)] = config.get_hosts() else {
            return Err("its url must name exactly one host".to_owned());
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let connected = TcpStream::connect((host.as_str(), port)).await;
        connected.map_err(|error| format!("it cannot be reached: {error}"))
    }

    async fn connect(config: &Config) -> Result<(Client, Ended), String> {
        let (reader, writer) = Self::stream(config).await?.into_split();
        // Bounds the bytes that are read from the server.
        let stream = tokio::io::join(reader.take(RECEIVED_BYTES), writer);
        let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(|error| told(&error))?;
        let ended = Ended(tokio::spawn(async move {
            // The next request returns the error.
            let _ = connection.await;
        }));
        Ok((client, ended))
    }

    /// Tells the server to end the statement of a connection.
    async fn stop(config: Config, statement: CancelToken) -> StopAnswer {
        let told = match Self::stream(&config).await {
            Ok(stream) => statement.cancel_query_raw(stream, NoTls).await.is_ok(),
            Err(_) => false,
        };
        if told { StopAnswer::Told } else { StopAnswer::Unreached }
    }
}

/// Closes the connection when dropped.
struct Ended(JoinHandle<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait]
impl Driver for Postgres {
    fn engine(&self) -> Engine {
        Engine::Postgres
    }

    async fn run(&self, statement: Understood, asked: Asked, share: Share) -> Result<Rows, String> {
        let config = self.config.clone();
        let open = async move {
            let (client, ended) = Self::connect(&config).await?;
            let token = client.cancel_token();
            let stop = move || Self::stop(config.clone(), token.clone()).boxed();
            let (filled, full) = oneshot::channel();
            let statement = async move {
                let rows = execute(&client, &statement, asked, filled).await;
                drop(ended);
                rows
            };
            Ok(Session { statement: statement.boxed(), full, stop: Box::new(stop) })
        };
        session::run(open, asked.within, share).await
    }
}

async fn execute(
    client: &Client,
    statement: &Understood,
    asked: Asked,
    filled: oneshot::Sender<Rows>,
) -> Result<Rows, Failed> {
    let changes = statement.changes.is_some();
    let mode = if changes { "READ WRITE" } else { "READ ONLY" };
    let begin = format!(
        "SET standard_conforming_strings = on; SET statement_timeout = {0}; SET lock_timeout = {0}; \
         SET idle_in_transaction_session_timeout = {0}; BEGIN TRANSACTION {mode}",
        milliseconds(asked.within)
    );
    client.batch_execute(&begin).await.map_err(|error| failed(&error))?;
    if let Some(why) = own_code::called(client, statement).await.map_err(|error| failed(&error))? {
        return Err(Failed::AtServer(why));
    }
    let (mut rows, mut filled) = (Rows::of_at_most(asked.rows), Some(filled));
    let messages = client.simple_query_raw(&statement.sql).await.map_err(|error| failed(&error))?;
    pin_mut!(messages);
    while let Some(message) = messages.try_next().await.map_err(|error| failed(&error))? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                rows.columns = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let has_room = rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)));
                if let Some(filled) = filled.take_if(|_| !has_room) {
                    // The receiver is gone if the caller was cancelled.
                    drop(filled.send(std::mem::take(&mut rows)));
                }
            }
            SimpleQueryMessage::CommandComplete(many) => rows.changed = changes.then_some(many),
            _ => {}
        }
    }
    client.batch_execute("COMMIT").await.map_err(|error| failed(&error))?;
    Ok(rows)
}

/// Formats a timeout for the server; 0 would disable it.
fn milliseconds(within: Duration) -> u128 {
    within.as_millis().max(1)
}

/// The classes of SQLSTATE whose messages name no values of rows: connections, constraints, transactions, logins, names
/// and syntax, resources, interventions, and messages that triggers of the operator write. See
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
const TOLD: [&str; 13] = ["08", "0A", "21", "23", "25", "28", "3D", "42", "53", "54", "55", "57", "P0"];

fn failed(error: &tokio_postgres::Error) -> Failed {
    match error.as_db_error() {
        Some(_) => Failed::AtServer(told(error)),
        None => Failed::Unknown(told(error)),
    }
}

/// Returns the server's error message, or that of the connection. A message that may quote values is replaced by its
/// code: a view may hide their rows, or the table may be changed only.
fn told(error: &tokio_postgres::Error) -> String {
    let Some(said) = error.as_db_error() else {
        return match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
    };
    let code = said.code().code();
    if TOLD.iter().any(|class| code.starts_with(class)) { said.message().to_owned() } else { unfit(code) }
}
