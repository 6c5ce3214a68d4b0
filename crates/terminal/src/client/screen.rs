//! Terminal modes: key handling while an answer is written, and restoring the terminal at the end.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

/// Maximum length of a line read without the editor, in bytes; terminals return no longer ones.
const LINE_MAX: usize = 4096;
/// Interval at which a reader checks that its line is still needed.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The terminal of the standard input. Dropping it restores the original modes, so that the terminal remains usable if
/// the client is killed while editing.
pub(super) struct Screen {
    before: Termios,
}

impl Screen {
    /// Turns echo off: typed text is kept for the next edited line, and bracketed paste is on. Ctrl-C is a signal
    /// meanwhile.
    ///
    /// # Errors
    /// The standard input is not a terminal.
    pub(super) fn take() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let screen = Self { before };
        screen.quiet()?;
        Ok(screen)
    }

    /// Sets the same modes after the editor, which restores its original ones but keeps bracketed paste.
    pub(super) fn quiet(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // Ctrl-C must not discard the text typed before it.
        modes.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &modes)?;
        paste_marks(true)
    }

    /// Reads a line typed from now on; `None` at the end of the input. Earlier input is discarded, since it was meant
    /// for something else. Dropping the future stops the reading.
    pub(super) async fn line(&self) -> io::Result<Option<String>> {
        let heard = Heard::on(self)?;
        let wanted = Arc::clone(&heard.wanted);
        let read = tokio::task::spawn_blocking(move || read_line(&wanted));
        read.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// Reads a line while it is needed. A terminal returns whole lines.
fn read_line(wanted: &AtomicBool) -> io::Result<Option<String>> {
    let stdin = rustix::stdio::stdin();
    loop {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK_EVERY)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !wanted.load(Ordering::Acquire) {
            return Ok(None);
        }
        if !ready[0].revents().is_empty() {
            let mut line = vec![0; LINE_MAX];
            let length = rustix::io::read(stdin, &mut line)?;
            line.truncate(length);
            return Ok((length > 0).then(|| String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// Echoes input until dropped.
struct Heard<'a> {
    screen: &'a Screen,
    wanted: Arc<AtomicBool>,
}

impl<'a> Heard<'a> {
    fn on(screen: &'a Screen) -> io::Result<Self> {
        paste_marks(false)?;
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &screen.before)?;
        tcflush(rustix::stdio::stdin(), QueueSelector::IFlush)?;
        Ok(Self { screen, wanted: Arc::new(AtomicBool::new(true)) })
    }
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Release);
        // The terminal may be gone.
        let _ = self.screen.quiet();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = paste_marks(false);
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Switches bracketed paste.
fn paste_marks(on: bool) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(if on { b"\x1b[?2004h" } else { b"\x1b[?2004l" })?;
    out.flush()
}
