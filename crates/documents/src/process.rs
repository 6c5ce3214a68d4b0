//! Starts a child for each document, and turns its end into a reason.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::child::{COMMAND, Outcome};
use domain::attachment::Unread;
use domain::document::DocumentText;
use ports::{Documents, NotRead};

/// The timeout of one document, from the start of the child to its exit.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of JSON for one Unicode scalar value: an escaped control character, such as `\u0000`.
const BYTES_A_CHARACTER: usize = 6;
/// The bytes of JSON around the text.
const FRAME_BYTES: usize = 1_024;

/// Reads documents in child processes of this program.
#[derive(Debug, Clone)]
pub struct DocumentReader {
    program: PathBuf,
}

impl DocumentReader {
    /// Uses the running executable, even if its file was replaced or deleted.
    #[must_use]
    pub fn own() -> Self {
        Self::at("/proc/self/exe")
    }

    /// Uses an executable of this program.
    #[must_use]
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    async fn ask(&self, bytes: Vec<u8>, most: usize) -> Result<DocumentText, NotRead> {
        let mut child = Command::new(&self.program)
            .arg(COMMAND)
            .arg(most.to_string())
            .env_clear()
            // The allocator reserves memory in pieces that it uses, so that the limit of the kernel is exact.
            .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| NotRead::new(Unread::Busy, format!("the reader did not start: {error}")))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(NotRead::new(Unread::Busy, "the reader has no pipes"));
        };
        // A child that stops reading has ended, and its status says more.
        let _ = stdin.write_all(&bytes).await;
        drop((stdin, bytes));
        let mut line = Vec::new();
        let bound = most.saturating_mul(BYTES_A_CHARACTER).saturating_add(FRAME_BYTES);
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        let read = stdout.take(bound).read_to_end(&mut line).await;
        let status = child.wait().await.map_err(|error| NotRead::new(Unread::Complex, error.to_string()))?;
        match (read, serde_json::from_slice::<Outcome>(&line)) {
            (Ok(_), Ok(outcome)) if status.success() => outcome.map_err(NotRead::from),
            _ => Err(NotRead::new(Unread::Complex, described(status))),
        }
    }
}

#[async_trait]
impl Documents for DocumentReader {
    async fn read(&self, bytes: Vec<u8>, most: usize) -> Result<DocumentText, NotRead> {
        // Dropping the child kills it.
        let late = |_| Err(NotRead::new(Unread::Complex, "the reader took too long"));
        timeout(READ_TIMEOUT, self.ask(bytes, most)).await.unwrap_or_else(late)
    }
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the reader ended with exit code {code}"),
        (None, signal) => format!("the reader was ended by signal {}", signal.unwrap_or_default()),
    }
}
