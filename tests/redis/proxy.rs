//! A network line between a client and a service, which can be cut, closed or silent.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The size of a read, in bytes.
const PIECE: usize = 16 * 1024;

/// The state of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Bytes pass.
    Open,
    /// Connections are reset, also new ones.
    Closed,
    /// Connections stay open, and no byte passes until the mode changes.
    Silent,
}

/// A line to one address at a time. Its connections end when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
    _serving: AbortOnDropHandle<()>,
}

struct Line {
    target: Mutex<SocketAddr>,
    mode: watch::Sender<Mode>,
    /// Cancelled to reset the current connections.
    current: Mutex<CancellationToken>,
}

impl Proxy {
    /// Opens a line to this address.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, current) = (watch::Sender::new(Mode::Open), Mutex::default());
        let line = Arc::new(Line { target: Mutex::new(target), mode, current });
        let serving = tokio::spawn(serve(listener, Arc::clone(&line)));
        Self { address, line, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets all current connections.
    pub fn cut(&self) {
        std::mem::take(&mut *self.line.current.lock()).cancel();
    }

    /// Changes the state of all connections, current and new.
    pub fn set(&self, mode: Mode) {
        self.line.mode.send_replace(mode);
        if mode == Mode::Closed {
            self.cut();
        }
    }

    /// Leads new connections to another address, and resets the current ones.
    pub fn leads_to(&self, target: SocketAddr) {
        *self.line.target.lock() = target;
        self.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

async fn serve(listener: TcpListener, line: Arc<Line>) {
    while let Ok((near, _)) = listener.accept().await {
        if *line.mode.borrow() == Mode::Closed {
            let _ = near.set_zero_linger();
            continue;
        }
        let (target, cut) = (*line.target.lock(), line.current.lock().clone());
        let mode = line.mode.subscribe();
        tokio::spawn(carry(near, target, mode, cut));
    }
}

async fn carry(near: TcpStream, target: SocketAddr, mode: watch::Receiver<Mode>, cut: CancellationToken) {
    let Ok(far) = TcpStream::connect(target).await else { return };
    for side in [&near, &far] {
        let _ = side.set_nodelay(true);
        // A dropped connection is reset, so its peer notices at once.
        let _ = side.set_zero_linger();
    }
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let both = async {
        tokio::join!(pump(from_near, to_far, mode.clone()), pump(from_far, to_near, mode));
    };
    let _ = cut.run_until_cancelled(both).await;
}

/// Carries bytes in one direction until its end.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let passes = mode.wait_for(|mode| *mode != Mode::Silent).await.is_ok();
        if !passes || to.write_all(&piece[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
