//! The guardian of a tool server: this program once more, as the parent of the server in a process group of its own. When the
//! bot dies, in whatever way, the pipe for the server's standard error loses its reader; then the guardian ends the whole group.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, kill_current_process_group};

/// The hidden command that makes a process a guardian.
pub const COMMAND: &str = "guard";

/// Runs a server until it ends, or until nobody reads its standard error any more. Gives the code to exit with.
///
/// # Errors
/// The server cannot be started.
pub async fn run(program: &OsString, args: &[OsString]) -> io::Result<u8> {
    // The whole group is told to end; the guardian stays until the server has.
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut child = tokio::process::Command::new(program).args(args).spawn()?;
    std::thread::Builder::new().name("guard".into()).spawn(watch)?;
    loop {
        tokio::select! {
            status = child.wait() => return status.map(code),
            _ = terminate.recv() => {}
        }
    }
}

/// Blocks until the other end of standard error is closed, then ends the group and this process with it.
fn watch() {
    let stderr = rustix::stdio::stderr();
    loop {
        let mut pipes = [PollFd::new(&stderr, PollFlags::empty())];
        match poll(&mut pipes, None) {
            Ok(_) if pipes[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    // It fails only when there is no group, which the caller made.
    let _ = kill_current_process_group(Signal::KILL);
}

fn code(status: ExitStatus) -> u8 {
    // The convention of shells for a death by a signal.
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128 + 9)
}
