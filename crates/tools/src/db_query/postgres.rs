//! The driver of `PostgreSQL`.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, TryStreamExt, pin_mut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{CancelToken, Client, Config, NoTls, SimpleQueryMessage};

use super::allowed::is_known;
use super::rows::Rows;
use super::session::{self, Session, StopAnswer};
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
            let statement = async move {
                let rows = execute(&client, &statement, asked).await;
                drop(ended);
                rows
            };
            Ok(Session { statement: statement.boxed(), stop: Box::new(stop) })
        };
        session::run(open, asked.within, share).await
    }
}

async fn execute(client: &Client, statement: &Understood, asked: Asked) -> Result<Rows, String> {
    let changes = statement.changes.is_some();
    let mode = if changes { "READ WRITE" } else { "READ ONLY" };
    let begin = format!(
        "SET standard_conforming_strings = on; SET statement_timeout = {0}; SET lock_timeout = {0}; \
         SET idle_in_transaction_session_timeout = {0}; BEGIN TRANSACTION {mode}",
        milliseconds(asked.within)
    );
    client.batch_execute(&begin).await.map_err(|error| told(&error))?;
    if let Some(name) = function_of_rows(client, statement).await.map_err(|error| told(&error))? {
        return Err(format!("{name} is a function and no column of these tables: do not qualify it with a table"));
    }
    let mut rows = Rows::of_at_most(asked.rows);
    let messages = client.simple_query_raw(&statement.sql).await.map_err(|error| told(&error))?;
    pin_mut!(messages);
    while let Some(message) = messages.try_next().await.map_err(|error| told(&error))? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                rows.columns = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let has_room = rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)));
                if !has_room {
                    return Ok(rows);
                }
            }
            SimpleQueryMessage::CommandComplete(many) => rows.changed = changes.then_some(many),
            _ => {}
        }
    }
    client.batch_execute("COMMIT").await.map_err(|error| told(&error))?;
    Ok(rows)
}

/// Returns the first name behind a dot that the server may call as a function of a row, because a table has no such
/// column: any user-defined function of that name, and a built-in one that is not on the allow list if none of the
/// statement's tables has a column of that name. Names in a statement contain no quotes.
async fn function_of_rows(client: &Client, statement: &Understood) -> Result<Option<String>, tokio_postgres::Error> {
    if statement.fields.is_empty() {
        return Ok(None);
    }
    let listed = |names: &mut dyn Iterator<Item = String>| names.collect::<Vec<_>>().join(", ");
    let names = listed(&mut statement.fields.iter().map(|name| format!("'{name}'")));
    let unknown = statement.fields.iter().filter(|name| !is_known(Engine::Postgres, name));
    let unknown = listed(&mut unknown.map(|name| format!("'{name}'")).chain(["NULL".to_owned()]));
    let tables = statement.reads.iter().chain(&statement.changes);
    let tables = tables.map(|table| format!("pg_catalog.to_regclass('{}')", Engine::Postgres.quoted(table)));
    let tables = listed(&mut { tables });
    // Base types, enumerations, ranges and multiranges are not row types.
    let sql = format!(
        "SELECT p.proname FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_type AS t ON t.oid = p.proargtypes[0] \
         WHERE p.proname IN ({names}) AND t.typtype NOT IN ('b', 'e', 'r', 'm') \
         AND (p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace OR (p.proname IN ({unknown}) AND NOT EXISTS \
         (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid IN ({tables}) AND a.attname = p.proname \
         AND NOT a.attisdropped))) LIMIT 1"
    );
    let found = client.simple_query(&sql).await?;
    Ok(found.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// Formats a timeout for the server; 0 would disable it.
fn milliseconds(within: Duration) -> u128 {
    within.as_millis().max(1)
}

/// Returns the server's error message, or that of the connection.
fn told(error: &tokio_postgres::Error) -> String {
    let said = error.as_db_error().map(|error| error.message().to_owned());
    said.unwrap_or_else(|| match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })
}
