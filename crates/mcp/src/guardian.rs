//! The guardian of a tool server: a second instance of this program, the parent of the server in a separate process
//! group. When the bot dies in any way, or stops the server immediately, the pipe of the server's standard error loses
//! its reader. The guardian then kills all processes that the server started, including those that left the group or
//! lost their parent.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_current_process_group, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// The hidden subcommand of the guardian.
pub const COMMAND: &str = "guard";

/// The timeout of killing the descendants. If a server forks faster than they can be killed, only its process group is
/// killed.
pub(super) const SWEEP_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause before the next search for descendants.
const SWEEP_PAUSE: Duration = Duration::from_millis(2);

/// Runs a server until it exits or its standard error has no reader. Returns the exit code.
///
/// # Errors
/// The server cannot be started.
pub async fn run(program: &OsString, args: &[OsString]) -> io::Result<u8> {
    adopt();
    // SIGTERM reaches the whole group; the guardian stays until the server has exited.
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

/// Makes this process the parent of all orphaned descendants.
fn adopt() {
    // If the system does not support this, only the process group is killed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Blocks until the other end of standard error is closed, then kills all descendants and this process.
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
    // Fails only without a group, which the caller created.
    let _ = kill_current_process_group(Signal::KILL);
}

/// Kills all descendants, including those found after their parents were killed.
fn sweep() {
    let until = Instant::now() + SWEEP_TIMEOUT;
    loop {
        let running = descendants();
        if running.is_empty() || Instant::now() > until {
            return;
        }
        for pid in running {
            // The process may have exited, or belong to another user.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(SWEEP_PAUSE);
        reaped(None);
    }
}

/// Reaps all exited children; returns the status of `wanted` if it was among them.
fn reaped(wanted: Option<Pid>) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if Some(pid) == wanted {
            found = Some(status);
        }
    }
    found
}

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
        // The program name is in parentheses and may contain any character.
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
    // The convention of shells for death by a signal.
    status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(128 + 9)
}
