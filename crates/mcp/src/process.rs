//! Child processes of tool servers: found, started in separate process groups with a clean environment, and killed with
//! the whole group, however this process ends.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::failure::{Failure, one_line};
use super::guardian::SWEEP_TIMEOUT;
use ports::tools::Command;

/// The timeout of a server's exit after its input is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_500);
/// The timeout of a server's exit after SIGTERM.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);
/// The extra time of a guardian to kill the server, before its group is killed.
const GUARDIAN_TIMEOUT: Duration = Duration::from_millis(500);
/// The bytes of standard error that are kept.
const WORDS_BYTES: usize = 2_000;
/// The timeout of reading the last output after the exit.
const WORDS_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) struct Process {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub life: Life,
}

/// The state of a child, and the handle to kill it. Dropping the last clone kills the whole group.
#[derive(Clone)]
pub(super) struct Life {
    ended: watch::Receiver<Option<String>>,
    end: CancellationToken,
    _last: Arc<tokio_util::sync::DropGuard>,
}

impl Life {
    /// Waits until the child has exited; returns its status and last output.
    pub(super) async fn ended(&mut self) -> String {
        let ended = self.ended.wait_for(Option::is_some).await;
        ended.ok().and_then(|ended| ended.clone()).unwrap_or_else(|| "it was terminated".to_owned())
    }

    /// Kills the server and all its descendants.
    pub(super) fn kill(&self) {
        self.end.cancel();
    }

    /// Waits for the child, whose input was closed, to exit; then terminates it, then kills the group.
    pub(super) async fn close(&mut self, group: Group) {
        if timeout(CLOSE_TIMEOUT, self.ended()).await.is_ok() {
            return;
        }
        group.signal(Signal::TERM);
        if timeout(TERMINATE_TIMEOUT, self.ended()).await.is_err() {
            self.kill();
            self.ended().await;
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Group(pub(super) Pid);

impl Group {
    fn signal(self, signal: Signal) {
        // A group that has ended needs no signal.
        let _ = kill_process_group(self.0, signal);
    }
}

/// Kills a group when dropped, even if the whole runtime is dropped. A running guardian is not killed: it kills more
/// than the group once its pipe has no reader.
struct EndGroup {
    group: Group,
    guarded: bool,
}

impl Drop for EndGroup {
    fn drop(&mut self) {
        if !self.guarded {
            self.group.signal(Signal::KILL);
        }
    }
}

/// Starts a server, under a guardian if there is one.
///
/// # Errors
/// The program does not exist, or cannot be started.
pub(super) fn start(command: &Command, guardian: Option<&Path>) -> Result<(Process, Group), Failure> {
    let program = find(command)?;
    let args = command.args.iter().map(ExposeSecret::expose_secret);
    let mut start = match guardian {
        Some(guardian) => {
            let mut start = tokio::process::Command::new(guardian);
            start.arg(super::guardian::COMMAND).arg("--").arg(&program);
            start
        }
        None => tokio::process::Command::new(&program),
    };
    start
        .args(args)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(guardian.is_none());
    if let Some(cwd) = &command.cwd {
        start.current_dir(cwd);
    }
    let not_started = |why: &dyn std::fmt::Display| Failure::NotStarted(format!("{}: {why}", program.display()));
    let mut child = start.spawn().map_err(|error| not_started(&error))?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let pipes = (pid, child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(pid), Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(not_started(&"it exited at once"));
    };
    let words: Arc<Mutex<Vec<u8>>> = Arc::default();
    let heard = tokio::spawn(hear(stderr, Arc::clone(&words)));
    let (tell, ended) = watch::channel(None);
    let end = CancellationToken::new();
    let group = Group(pid);
    let secrets = secrets(command);
    let (told, guarded) = (end.clone(), guardian.is_some());
    tokio::spawn(async move {
        let status = wait(child, EndGroup { group, guarded }, told, &heard).await;
        let _ = timeout(WORDS_TIMEOUT, heard).await;
        let mut words = String::from_utf8_lossy(&words.lock()).into_owned();
        for secret in secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| secret.len() >= SECRET_LEAST) {
            words = words.replace(secret, "***");
        }
        let words = last_words(&words);
        tell.send_replace(Some(if words.is_empty() { status } else { format!("{status}: {words}") }));
    });
    let life = Life { ended, end: end.clone(), _last: Arc::new(end.drop_guard()) };
    Ok((Process { stdin, stdout, life }, group))
}

/// Returns the values to be redacted from the last output: those of the environment, and arguments other than paths and
/// package names, which most mistakes are about.
fn secrets(command: &Command) -> Vec<SecretString> {
    let hidden = |arg: &&SecretString| {
        let arg = arg.expose_secret();
        let named = ["/", "./", "../", "@"].iter().any(|start| arg.starts_with(start));
        !named || arg.contains(['=', ':', '+'])
    };
    command.env.values().chain(command.args.iter().filter(hidden)).cloned().collect()
}

/// The shortest redacted value; a shorter one, such as a language code, would match ordinary words.
const SECRET_LEAST: usize = 6;

/// Returns the kept part of the output: the first line with an error, and the end, which usually has the reason.
fn last_words(words: &str) -> String {
    const HALF: usize = super::failure::MESSAGE_MAX / 4;
    let line = one_line(words, WORDS_BYTES);
    if line.len() <= 2 * HALF {
        return line;
    }
    let end = &line[line.ceil_char_boundary(line.len() - HALF)..];
    // Runtimes print the location after the error.
    let reason = words.lines().map(str::trim).find(|line| line.to_ascii_lowercase().contains("error"));
    match reason.map(|reason| one_line(reason, HALF)).filter(|reason| !end.contains(reason.as_str())) {
        Some(reason) => format!("{reason} [...] {end}"),
        None => line[line.ceil_char_boundary(line.len() - 2 * HALF)..].to_owned(),
    }
}

/// Waits for the exit of a child; kills it if `end` is cancelled.
async fn wait(mut child: Child, mut end_group: EndGroup, end: CancellationToken, heard: &JoinHandle<()>) -> String {
    let ended = tokio::select! {
        status = child.wait() => Some(status),
        () = end.cancelled() => None,
    };
    let status = match ended {
        Some(status) => status,
        None if end_group.guarded => {
            // A guardian whose pipe has no reader kills all processes.
            heard.abort();
            let ended = timeout(SWEEP_TIMEOUT + GUARDIAN_TIMEOUT, child.wait()).await;
            end_group.group.signal(Signal::KILL);
            match ended {
                Ok(status) => status,
                Err(_) => child.wait().await,
            }
        }
        None => {
            end_group.group.signal(Signal::KILL);
            child.wait().await
        }
    };
    // Processes that the child left in its group are killed.
    end_group.guarded = false;
    drop(end_group);
    status.map_or_else(|error| error.to_string(), described)
}

fn described(status: ExitStatus) -> String {
    status.code().map_or_else(|| "it was killed".to_owned(), |code| format!("exit code {code}"))
}

/// Keeps the last bytes of a stream.
async fn hear(mut stream: impl AsyncRead + Unpin, words: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; 4_096];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        let mut words = words.lock();
        words.extend_from_slice(&piece[..read]);
        let old = words.len().saturating_sub(WORDS_BYTES);
        words.drain(..old);
    }
}

/// Returns the file of a program: a path as it is, a name by the child's own `PATH`.
///
/// # Errors
/// The program or its working directory does not exist.
pub(super) fn find(command: &Command) -> Result<PathBuf, Failure> {
    if let Some(cwd) = command.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(Failure::NotStarted(format!("its cwd {} is not a folder", cwd.display())));
    }
    let missing = || Failure::CommandNotFound(command.program.clone());
    if command.program.contains('/') {
        let path = Path::new(&command.program);
        let path = match &command.cwd {
            Some(cwd) if path.is_relative() => cwd.join(path),
            _ => path.to_owned(),
        };
        return match runnable(&path) {
            Some(true) => Ok(path),
            Some(false) => Err(Failure::NotStarted(format!("{} is not an executable program", path.display()))),
            None => Err(missing()),
        };
    }
    let folders = command.env.get("PATH").map(|path| path.expose_secret().to_owned()).unwrap_or_default();
    let candidates = folders.split(':').filter(|folder| !folder.is_empty());
    let found =
        candidates.map(|folder| Path::new(folder).join(&command.program)).find(|path| runnable(path) == Some(true));
    found.filter(|_| !command.program.is_empty()).ok_or_else(missing)
}

/// True if a file is executable; `None` if there is no file.
fn runnable(path: &Path) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt;
    let about = std::fs::metadata(path).ok()?;
    Some(about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_kept_also_when_much_stands_behind_it() {
        let node = format!(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/srv/index.js'\n{}  code: 'MODULE_NOT_FOUND'\n}}\n\nNode.js v20.19.2\n",
            "    at Module._load (node:internal/modules/cjs/loader:1051:27)\n".repeat(8)
        );
        let kept = last_words(&node);
        assert!(
            kept.starts_with("Error: Cannot find module '/srv/index.js' [...]") && kept.ends_with("Node.js v20.19.2"),
            "{kept}"
        );
        assert_eq!(last_words("Error: API_KEY is not set\n"), "Error: API_KEY is not set");
        assert!(last_words(&"ä".repeat(5_000)).len() <= super::super::failure::MESSAGE_MAX / 2);
    }
}
