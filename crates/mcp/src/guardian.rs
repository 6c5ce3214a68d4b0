//! The guardian of a tool server: this program once more, as the parent of the server in a process group of its own. When the
//! bot dies, in whatever way, or wants the server to end at once, the pipe for the server's standard error loses its reader; then
//! the guardian ends all that the server started, also what left the group and what lost its parent.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_current_process_group, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// The hidden command that makes a process a guardian.
pub const COMMAND: &str = "guard";

/// How long ending what a server started may take: a server that starts processes faster than they can be ended is left to
/// the end of its group.
pub(super) const SWEEP_WITHIN: Duration = Duration::from_secs(1);
/// The pause before looking again for processes that were told to end.
const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// Runs a server until it ends, or until nobody reads its standard error any more. Gives the code to exit with.
///
/// # Errors
/// The server cannot be started.
pub async fn run(program: &OsString, args: &[OsString]) -> io::Result<u8> {
    adopt();
    // The whole group is told to end; the guardian stays until the server has.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut ended = signal(SignalKind::child())?;
    let server = std::process::Command::new(program).args(args).spawn()?;
    let server = i32::try_from(server.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Unsupported)?;
    std::thread::Builder::new().name("guard".into()).spawn(watch)?;
    loop {
        tokio::select! {
            _ = ended.recv() => {}
            _ = terminate.recv() => {}
        }
        if let Some(status) = reaped(Some(server)) {
            sweep();
            return Ok(code(status));
        }
    }
}

/// Makes this process the parent of all descendants that lose theirs.
fn adopt() {
    // Where the system cannot do so, the process group is all that is ended.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Blocks until the other end of standard error is closed, then ends everything and this process with it.
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
    sweep();
    // It fails only when there is no group, which the caller made.
    let _ = kill_current_process_group(Signal::KILL);
}

/// Ends all descendants, and those that come to light when their parents end.
fn sweep() {
    let until = Instant::now() + SWEEP_WITHIN;
    loop {
        let running = descendants();
        if running.is_empty() || Instant::now() > until {
            return;
        }
        for pid in running {
            // It may have ended meanwhile, or belong to another user.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(SWEEP_PAUSE);
        reaped(None);
    }
}

/// Lets go of all children that have ended; the status of this one, if it was among them.
fn reaped(wanted: Option<Pid>) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if Some(pid) == wanted {
            found = Some(status);
        }
    }
    found
}

/// Returns the running descendants of this process.
fn descendants() -> Vec<Pid> {
    below(rustix::process::getpid())
}

/// Returns the running descendants of a process.
pub(super) fn below(root: Pid) -> Vec<Pid> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in folder.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let about = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name of the program stands in parentheses and may hold any character.
        let mut after = about.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, parent) = (after.next(), after.next().and_then(|parent| parent.parse().ok()));
        if let (Some(parent), true) = (parent, state != Some("Z")) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![root.as_raw_nonzero().get()]);
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(below.iter().copied().filter_map(Pid::from_raw));
        next.extend(below);
    }
    found
}

fn code(status: WaitStatus) -> u8 {
    // The convention of shells for a death by a signal.
    status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(128 + 9)
}
