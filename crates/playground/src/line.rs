//! Connections that can be cut: a listener whose streams break at once, without a close on any layer, when their
//! [`Line`] is cut.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Pause after a failed accept, for example because of too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The handle of one connection.
#[derive(Clone, Debug)]
pub struct Line(CancellationToken);

impl Line {
    /// Breaks the connection: the peer sees a reset instead of an end.
    pub fn cut(&self) {
        self.0.cancel();
    }

    /// Resolves when the connection is broken.
    pub async fn broken(&self) {
        self.0.cancelled().await;
    }
}

/// The listener. Cancelling `all` breaks every connection.
pub struct Door {
    listener: TcpListener,
    all: CancellationToken,
}

impl Door {
    /// Listens on `addr`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn open(addr: SocketAddr, all: CancellationToken) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(addr).await?, all })
    }
}

impl Listener for Door {
    type Io = Cuttable;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Cuttable, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Nagle's algorithm would distort measurements.
                    let _ = stream.set_nodelay(true);
                    let line = Line(self.all.child_token());
                    let broken = Box::pin(line.0.clone().cancelled_owned());
                    return (Cuttable { stream, line, broken }, peer);
                }
                Err(error) => {
                    tracing::debug!(%error, "playground accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Door>> for Line {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.io().line.clone()
    }
}

/// A TCP stream that fails every read and write once its line is cut.
pub struct Cuttable {
    stream: TcpStream,
    line: Line,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Cuttable {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.broken.as_mut().poll(cx).is_pending() {
            return Ok(());
        }
        // A completed future must not be polled again.
        self.broken = Box::pin(self.line.0.clone().cancelled_owned());
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl Drop for Cuttable {
    fn drop(&mut self) {
        if self.line.0.is_cancelled() {
            // With a zero linger time the kernel sends a reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Cuttable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
