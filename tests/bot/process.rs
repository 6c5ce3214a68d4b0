//! The program as a process of its own, for signals, kills and exit codes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

/// A running `staffai run`; killed when dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program in `dir` with only `env` in its environment. Its output goes to `name`.log there.
    pub fn start(dir: &Path, name: &str, env: &BTreeMap<String, String>) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = File::create(&log).unwrap();
        let mut command = program(dir, env);
        let command = command.arg("run").stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Starts the program in `dir` by a script of the shell, which runs `exec "$0" run` after it has set limits.
    pub fn under(dir: &Path, name: &str, env: &BTreeMap<String, String>, script: &str) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = File::create(&log).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_staffai")]).env_clear().envs(env).current_dir(dir);
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Starts a conversation in the terminal; it lasts until its input ends.
    pub fn chat(dir: &Path, name: &str, env: &BTreeMap<String, String>) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = File::create(&log).unwrap();
        let mut command = program(dir, env);
        command.arg("chat").stdin(Stdio::piped()).stdout(out.try_clone().unwrap()).stderr(out);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Writes a line to its input.
    pub fn reads(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM: it drains.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// SIGINT, as Ctrl-C sends it.
    pub fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(name).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Awaits its exit code, with this timeout.
    pub async fn exit(&mut self, within: Duration) -> i32 {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "the process did not end within {within:?}:\n{}", self.output());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns the command of the program in `dir` with only `env` in its environment.
pub fn program(dir: &Path, env: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.env_clear().envs(env).current_dir(dir);
    command
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
