//! The signals that end a run.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

/// Calls `reload` on each SIGHUP, for as long as the returned task lives.
///
/// # Errors
/// The system takes no handler.
pub fn on_hangup(reload: impl Fn() + Send + 'static) -> std::io::Result<AbortOnDropHandle<()>> {
    let mut hangups = signal(SignalKind::hangup())?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            reload();
        }
    })))
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
