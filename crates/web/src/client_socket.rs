//! The WebSocket of one client: pings, a bound of silence, a bound of age, a bound of frames, and a close that the client
//! can read.

mod frames;
mod upgrade;

use std::time::Duration;

use axum::body::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
pub use tokio_tungstenite::tungstenite::protocol::CloseFrame;
pub use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
pub use tokio_tungstenite::tungstenite::{Error, Message};

use self::frames::{Counted, PER_SECOND};
pub use self::upgrade::Upgrade;

/// Maximum age of a socket; clients then open another one.
pub const LIFE: Duration = Duration::from_secs(60 * 60);
/// Interval of pings.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time without any frame from the client after which it counts as gone.
const SILENT: Duration = Duration::from_secs(90);
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The connection is lost, or the client reads or sends nothing any more.
#[derive(Debug)]
pub struct Disconnected;

/// One socket.
pub struct ClientSocket {
    socket: WebSocketStream<Counted<TokioIo<Upgraded>>>,
    opened: Instant,
    /// The time of the client's last frame.
    received: Instant,
    pinged: Instant,
}

impl ClientSocket {
    fn new(socket: WebSocketStream<Counted<TokioIo<Upgraded>>>) -> Self {
        let now = Instant::now();
        Self { socket, opened: now, received: now, pinged: now }
    }

    /// Returns the end of the socket's life.
    #[must_use]
    pub fn ends(&self) -> Instant {
        self.opened + LIFE
    }

    /// Returns the time of the next [`ping`](Self::ping), or of the timeout of a silent client.
    #[must_use]
    pub fn ping_due(&self) -> Instant {
        (self.pinged + PING_EVERY).min(self.received + SILENT)
    }

    /// Returns the next message of the client; `None` after its end. Cancel safe. Other tasks run between two messages.
    pub async fn receive(&mut self) -> Option<Result<Message, Error>> {
        tokio::task::yield_now().await;
        let message = self.socket.next().await;
        self.received = Instant::now();
        if self.socket.get_ref().is_flooded() {
            let reason = format!("a client may send {PER_SECOND} frames a second");
            let _ = self.close(CloseCode::Policy, &reason).await;
            return None;
        }
        message
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The connection is lost, or the client does not read.
    pub async fn send(&mut self, frame: Message) -> Result<(), Disconnected> {
        match timeout(SEND_TIMEOUT, self.socket.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Disconnected),
        }
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// The client was silent for too long, or see [`Self::send`].
    pub async fn ping(&mut self) -> Result<(), Disconnected> {
        if self.received.elapsed() >= SILENT {
            return Err(Disconnected);
        }
        self.pinged = Instant::now();
        self.send(Message::Ping(Bytes::new())).await
    }

    /// Closes the socket, and reads until the client's close: unread data from the client would reset the connection
    /// and discard what it has not read yet.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub async fn close(&mut self, code: CloseCode, reason: &str) -> Result<(), Disconnected> {
        self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
        let closed = async {
            while let Some(frame) = self.socket.next().await {
                if frame.is_err() {
                    // Nothing can be read behind a message that is too long. The client has until the timeout to read
                    // the close frame.
                    std::future::pending::<()>().await;
                }
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
        Ok(())
    }
}
