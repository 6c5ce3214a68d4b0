//! The signals that end a run.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

/// A listener for SIGHUP.
pub struct Hangups(Signal);

impl Hangups {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn listen() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Calls `reload` on each signal, for the lifetime of the returned task.
    pub fn each(mut self, reload: impl Fn() + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            while self.0.recv().await.is_some() {
                reload();
            }
        }))
    }
}

/// A listener for SIGTERM and, optionally, SIGINT.
pub struct Ends {
    term: Signal,
    int: Option<Signal>,
}

impl Ends {
    /// Listens for both from now on.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: Some(signal(SignalKind::interrupt())?) })
    }

    /// Listens for SIGTERM alone, if Ctrl-C has another meaning.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn listen_without_interrupts() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: None })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            () = async {
                match &mut self.int {
                    Some(int) => drop(int.recv().await),
                    None => std::future::pending().await,
                }
            } => {}
        }
    }
}
