//! Tool servers over the Model Context Protocol. The library rmcp handles the lifecycle of both protocol generations;
//! incoming data is read here first, within bounds.
//!
//! | file | does |
//! |---|---|
//! | `connection.rs` | one server: lists, calls, renewal of a lost session |
//! | `eras.rs` | the protocol generation of a server |
//! | `session.rs` | one session: handshake, requests with deadlines and cancellation |
//! | `exchange.rs` | pending requests and the traffic that belongs to them |
//! | `inquiry.rs` | requests from a server, rate-limited |
//! | `content.rs`, `listing.rs` | lenient, bounded reading of results and lists |
//! | `pending.rs` | replies to calls that are not finished: required input, tasks |
//! | `stdio.rs`, `http.rs`, `legacy.rs` | the transports; `frame.rs` splits their bytes into messages |
//! | `room.rs` | the memory budget of pending replies |
//! | `param_headers.rs` | headers that tools name for their arguments |
//! | `lenient.rs` | repair of almost valid JSON |
//! | `process.rs`, `guardian.rs` | child processes and their termination; `starting.rs` bounds their start |
//! | `oauth.rs` | logins |
//! | `config.rs` | the file of servers, and the list of addresses |
//! | `nats.rs` | processes that announce their tools over NATS |
//! | `utility.rs` | resources and prompts as tools |
//! | `failure.rs` | failures and their translation to the port's errors |

mod address;
mod bucket;
pub mod config;
mod connection;
mod content;
mod eras;
mod exchange;
mod failure;
mod frame;
pub mod guardian;
mod http;
mod inquiry;
mod legacy;
mod lenient;
mod listing;
pub mod nats;
pub mod oauth;
mod param_headers;
mod pending;
mod process;
mod room;
mod session;
mod starting;
mod stdio;
mod unasked;
mod utility;

#[cfg(test)]
mod fuzz;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::timeout;

use self::connection::{Connection, Maker};
use self::eras::Eras;
use self::failure::Failure;
use self::nats::NatsProviders;
use self::oauth::Logins;
use self::room::Room;
use self::starting::Child;
use ports::tools::{ConnectError, ServerEntry, Transport};
use ports::{ToolServer, ToolServers};

/// Checks an entry without starting or contacting anything: its program exists, or its address is allowed.
///
/// # Errors
/// See [`ConnectError`].
pub fn possible(entry: &ServerEntry) -> Result<(), ConnectError> {
    let possible = match &entry.transport {
        Transport::Stdio(command) => process::find(command).map(drop),
        Transport::Http(endpoint) => address::address(endpoint).map(drop),
        Transport::Provider => Ok(()),
    };
    possible.map_err(|failure| failure.of_connect())
}

/// Connects to servers of the Model Context Protocol.
#[derive(Clone, Default)]
pub struct McpServers {
    /// The executable of this program, which guards child processes when run with `guardian::COMMAND`. Without it,
    /// children may outlive a killed bot.
    pub guardian: Option<PathBuf>,
    /// The store of logins, if used.
    pub logins: Option<Logins>,
    /// Processes that announce themselves; `None` without a configured NATS.
    pub providers: Option<Arc<NatsProviders>>,
    /// The memory budget of pending replies, shared by all servers.
    pub replies: Replies,
    /// The detected protocol generations of servers.
    pub generations: Generations,
}

/// The detected protocol generations of servers.
#[derive(Clone, Default)]
pub struct Generations(Eras);

/// The memory budget of pending replies.
#[derive(Clone, Default)]
pub struct Replies(Room);

impl McpServers {
    /// Uses the running executable as the guardian, even if its file was replaced or deleted.
    #[must_use]
    pub fn guarded() -> Self {
        Self { guardian: Some(PathBuf::from("/proc/self/exe")), ..Self::default() }
    }

    /// Adds a store of logins.
    #[must_use]
    pub fn with_logins(self, logins: Logins) -> Self {
        Self { logins: Some(logins), ..self }
    }
}

#[async_trait]
impl ToolServers for McpServers {
    async fn connect(&self, entry: &ServerEntry, within: Duration) -> Result<Arc<dyn ToolServer>, ConnectError> {
        if let (Transport::Provider, Some(providers)) = (&entry.transport, &self.providers) {
            return providers.connect(entry);
        }
        let (changes, _) = watch::channel(0);
        let (guardian, logins) = (self.guardian.clone(), self.logins.clone());
        let (room, eras) = (self.replies.0.of_server(), self.generations.0.clone());
        let maker = Maker { entry: entry.clone(), guardian, logins, room, eras, child: Child::default() };
        let begun = match &entry.transport {
            Transport::Stdio(_) => Box::pin(starting::within(within, &maker.child, maker.session(&changes))).await,
            Transport::Http(_) | Transport::Provider => {
                timeout(within, maker.session(&changes)).await.unwrap_or(Err(Failure::Timeout(within)))
            }
        };
        let session = begun.map_err(|failure| failure.of_connect())?;
        Ok(Arc::new(Connection::new(maker, session, changes)))
    }
}
