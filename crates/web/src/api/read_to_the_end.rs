//! A socket whose writer fails only where its reader does.
//!
//! A server may refuse a request, and close the connection, before it has read the whole body. The next write then
//! fails while the refusal waits to be read. HTTP clients end the request at the failed write, and the refusal is lost.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket that discards what can no longer be written. Its reader gets what the other side sent, and then the end or
/// the failure.
pub struct ReadToTheEnd {
    stream: TcpStream,
    is_broken: bool,
}

impl ReadToTheEnd {
    /// Wraps a socket.
    pub const fn new(stream: TcpStream) -> Self {
        Self { stream, is_broken: false }
    }

    /// Replaces a failure to write by `instead`.
    fn written<T>(&mut self, polled: Poll<io::Result<T>>, instead: T) -> Poll<io::Result<T>> {
        if matches!(polled, Poll::Ready(Err(_))) {
            self.is_broken = true;
            return Poll::Ready(Ok(instead));
        }
        polled
    }
}

impl AsyncRead for ReadToTheEnd {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ReadToTheEnd {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_broken {
            return Poll::Ready(Ok(buf.len()));
        }
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(polled, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        if self.is_broken {
            return Poll::Ready(Ok(all));
        }
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(polled, all)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(polled, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(polled, ())
    }
}
