//! The signals that end a run.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

/// SIGHUP.
pub struct Hangups(Signal);

impl Hangups {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system takes no handler.
    pub fn listen() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Calls `reload` on each, for as long as the returned task lives.
    pub fn each(mut self, reload: impl Fn() + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            while self.0.recv().await.is_some() {
                reload();
            }
        }))
    }
}

/// SIGTERM and SIGINT.
pub struct Ends {
    term: Signal,
    int: Signal,
}

impl Ends {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system takes no handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}
