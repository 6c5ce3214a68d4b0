//! What the two processes of the playground say to each other: one JSON object a line, over the socket that is the bot's
//! standard input. Its end tells the bot that nobody is there any more.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use playground::bot_process::Choice;
use playground::bot_process::{BotOrder, Counted, Refused};

/// What the bot is told at its birth, as the first line.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Birth {
    /// The local chat service.
    pub api_url: String,
    /// The bot's token there.
    pub token: String,
    /// The owners of its guilds.
    pub owners: Vec<String>,
    /// The demo model, unless another one is configured.
    pub demo_url: Option<String>,
    /// The one that answers when the demo model cannot.
    #[serde(default)]
    pub spare_url: Option<String>,
    /// The model that somebody chose in its place.
    #[serde(default)]
    pub model: Option<Choice>,
}

/// An order, with a number that its answer repeats.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub number: u64,
    pub order: BotOrder,
}

/// What the bot tells.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// It listens here.
    Listens(SocketAddr),
    /// What became of an order.
    Done(u64, Result<(), Refused>),
    /// What it counted since it was started.
    Counted(Counted),
}

/// One end.
pub(super) struct Link {
    pub heard: Heard,
    pub says: Says,
}

/// The lines that come.
pub(super) struct Heard(Lines<BufReader<OwnedReadHalf>>);

/// The lines that go.
pub(super) struct Says(OwnedWriteHalf);

impl Link {
    pub fn of(stream: std::os::unix::net::UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (read, write) = UnixStream::from_std(stream)?.into_split();
        Ok(Self { heard: Heard(BufReader::new(read).lines()), says: Says(write) })
    }
}

impl Heard {
    /// The next line; none at the end, and when the other side says what is not understood.
    pub async fn next<T: for<'de> Deserialize<'de>>(&mut self) -> Option<T> {
        let line = self.0.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }
}

impl Says {
    /// Says it; an error when nobody hears.
    pub async fn say(&mut self, what: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.0.write_all(&line).await
    }
}
