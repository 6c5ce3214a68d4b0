//! Tool servers over the Model Context Protocol. The library rmcp does the lifecycle of the protocol's two generations; what
//! comes over the wires is read here, within bounds, before it gets to see it.
//!
//! | file | does |
//! |---|---|
//! | `connection.rs` | one server: lists, calls, a lost session begun again |
//! | `eras.rs` | which generation of the protocol a server speaks |
//! | `session.rs` | one session: handshake, requests with deadlines and cancellation |
//! | `exchange.rs` | the requests under way, and what of the traffic belongs to them |
//! | `inquiry.rs` | requests that a server sends to us, refused within a rate |
//! | `content.rs`, `listing.rs` | answers to calls and lists, read leniently and within bounds |
//! | `stdio.rs`, `http.rs`, `legacy.rs` | the transports; `frame.rs` cuts their bytes into messages |
//! | `room.rs` | the memory of all replies under way |
//! | `param_headers.rs` | headers that tools name for their arguments |
//! | `lenient.rs` | what servers write that is not quite JSON |
//! | `process.rs`, `guardian.rs` | child processes and their end; `starting.rs` bounds their start |
//! | `oauth.rs` | logins at servers that want one |
//! | `config.rs` | the file of servers, and the list of addresses |
//! | `nats.rs` | processes that announce their tools over NATS |
//! | `utility.rs` | resources and prompts as tools |
//! | `failure.rs` | what goes wrong, and what it is called outside |

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
mod process;
mod room;
mod session;
mod starting;
mod stdio;
mod unasked;
mod utility;

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

/// Whether an entry could be tried at all: its program is there, or its address is one that is allowed. Nothing is started and nobody
/// is asked.
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
    /// This program, which guards child processes when it is run with `guardian::COMMAND`; without it a child may outlive a
    /// bot that was killed.
    pub guardian: Option<PathBuf>,
    /// Where logins are kept; none uses none.
    pub logins: Option<Logins>,
    /// Processes that announce themselves; none where no NATS is configured.
    pub providers: Option<Arc<NatsProviders>>,
    /// The memory of replies under way, shared by all servers.
    pub replies: Replies,
    /// The generations of the protocol that servers were found to speak.
    pub generations: Generations,
}

/// The generations of the protocol that servers were found to speak.
#[derive(Clone, Default)]
pub struct Generations(Eras);

/// The memory of replies under way.
#[derive(Clone, Default)]
pub struct Replies(Room);

impl McpServers {
    /// Children are guarded by this program, whatever became of its file since its start.
    #[must_use]
    pub fn guarded() -> Self {
        Self { guardian: Some(PathBuf::from("/proc/self/exe")), ..Self::default() }
    }

    /// The same with logins.
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
        let (room, eras) = (self.replies.0.clone(), self.generations.0.clone());
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
