//! The protocol between the two processes of the playground: one JSON object per line, over the socket that is the
//! bot's standard input. Its end tells the bot that the playground is gone.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use playground::bot_process::Choice;
use playground::bot_process::{BotOrder, Counted, OrderRefusal};

/// The first line to the bot.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Birth {
    /// The URL of the local chat service.
    pub api_url: String,
    /// The bot's token at the local chat service.
    pub token: String,
    /// The account at the local workspace.
    pub workspace: WorkspaceAccount,
    /// The owners of its guilds.
    pub owners: Vec<String>,
    /// The URL of the demo model, unless another model is configured.
    pub demo_url: Option<String>,
    /// The URL of the fallback of the demo model.
    #[serde(default)]
    pub spare_url: Option<String>,
    /// The model that a user selected instead.
    #[serde(default)]
    pub model: Option<Choice>,
}

/// The bot's account at the local workspace.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WorkspaceAccount {
    /// The URL.
    pub api_url: String,
    /// The token of the bot user.
    pub bot_token: String,
    /// The token of the app.
    pub app_token: String,
}

/// An order, with a number that its answer repeats.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub number: u64,
    pub order: BotOrder,
}

/// A message of the bot.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BotReport {
    /// The address on which it listens.
    Listens(SocketAddr),
    /// The outcome of the order with this number.
    Done(u64, Result<(), OrderRefusal>),
    /// The counters since its start.
    Counted(Counted),
}

/// One end of the socket.
pub(super) struct Link {
    pub heard: Heard,
    pub says: Says,
}

/// The received lines.
pub(super) struct Heard(Lines<BufReader<OwnedReadHalf>>);

/// The sent lines.
pub(super) struct Says(OwnedWriteHalf);

impl Link {
    pub fn of(stream: std::os::unix::net::UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (read, write) = UnixStream::from_std(stream)?.into_split();
        Ok(Self { heard: Heard(BufReader::new(read).lines()), says: Says(write) })
    }
}

impl Heard {
    /// Returns the next line, or `None` at the end or if a line is malformed.
    pub async fn next<T: for<'de> Deserialize<'de>>(&mut self) -> Option<T> {
        let line = self.0.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }
}

impl Says {
    /// Sends a line. Fails if the other end is closed.
    pub async fn say(&mut self, what: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.0.write_all(&line).await
    }
}
