//! The terminal itself: what the keys do while an answer is written, and how it is left behind.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

/// The longest line that is read beside the editor, in bytes; a terminal gives no longer one.
const LINE_MAX: usize = 4096;
/// How often a reader looks whether its line is still wanted.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The terminal of the standard input. What it was like before comes back when this is dropped, so that whoever is killed while
/// editing leaves a terminal that can be typed in.
pub(super) struct Screen {
    before: Termios,
}

impl Screen {
    /// Keeps what is typed from the screen, from now on: it waits for the next line that is edited, and pasted lines keep the
    /// marks that hold them together. Ctrl-C is a signal meanwhile.
    ///
    /// # Errors
    /// The standard input is no terminal.
    pub(super) fn take() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let screen = Self { before };
        screen.quiet()?;
        Ok(screen)
    }

    /// The same after the editor, which leaves the terminal as it found it but for pasted lines.
    pub(super) fn quiet(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // Ctrl-C is no reason to forget what was typed before it.
        modes.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &modes)?;
        paste_marks(true)
    }

    /// A line that is typed from now on; none at the end of the input. What was typed before is forgotten: it was meant for
    /// something else. Once dropped, this reads nothing.
    pub(super) async fn line(&self) -> io::Result<Option<String>> {
        let heard = Heard::on(self)?;
        let wanted = Arc::clone(&heard.wanted);
        let read = tokio::task::spawn_blocking(move || read_line(&wanted));
        read.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// Reads a line for as long as it is wanted. A terminal gives a whole line at once.
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

/// Shows what is typed while this lives.
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
        // A terminal that is gone needs no order.
        let _ = self.screen.quiet();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no order.
        let _ = paste_marks(false);
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Has the terminal mark where pasted text begins and ends, or not.
fn paste_marks(on: bool) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(if on { b"\x1b[?2004h" } else { b"\x1b[?2004l" })?;
    out.flush()
}
