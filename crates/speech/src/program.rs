//! Local programs that speak or hear: started without a shell and without variables of the service.

use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::failure::Failure;

/// The search path of commands, which inherit no variables.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The size of reads from a command, in bytes.
const READ: usize = 16 * 1024;

/// Runs a program with this input, and passes on its output. It is killed when the future is dropped or `output` fails.
///
/// # Errors
/// It does not start, does not end well, or `output` fails.
pub(crate) async fn run(
    words: &[String],
    input: &[u8],
    mut output: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::Refused(format!("{what}: {error}"));
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::Refused("the command is empty".to_owned()));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Also at the timeout, and when the output is too long.
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed("it did not start", &error))?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::Refused("it has no pipes".to_owned()));
    };
    let write = async move {
        // A program that stops reading has ended, and its status says more.
        let _ = stdin.write_all(input).await;
    };
    let read = async {
        let mut buffer = vec![0; READ];
        loop {
            let many = stdout.read(&mut buffer).await.map_err(|error| failed("its output was lost", &error))?;
            if many == 0 {
                return Ok(());
            }
            output(&buffer[..many])?;
        }
    };
    // Output that is too long ends the program at once, even if it does not read its input.
    let read = async {
        tokio::pin!(write, read);
        tokio::select! {
            result = &mut read => result,
            () = &mut write => read.await,
        }
    };
    read.await?;
    let status = child.wait().await.map_err(|error| failed("it did not end", &error))?;
    if status.success() { Ok(()) } else { Err(failed("it ended with", &status)) }
}
