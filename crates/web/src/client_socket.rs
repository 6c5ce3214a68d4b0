//! The WebSocket of one client: pings, a bound of silence, a bound of age, and a close that the client can read.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use tokio::time::{Instant, timeout};

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
    socket: WebSocket,
    opened: Instant,
    /// The time of the client's last frame.
    received: Instant,
    pinged: Instant,
}

impl ClientSocket {
    /// Takes an opened socket.
    #[must_use]
    pub fn new(socket: WebSocket) -> Self {
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

    /// Returns the next frame of the client; `None` after its end. Cancel safe.
    pub async fn receive(&mut self) -> Option<Result<Message, axum::Error>> {
        let frame = self.socket.recv().await;
        self.received = Instant::now();
        frame
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
    pub async fn close(&mut self, code: u16, reason: &str) -> Result<(), Disconnected> {
        self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
        let closed = async {
            while let Some(frame) = self.socket.recv().await {
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
