//! The child process that reads one document. It takes the file from its standard input and writes one line of JSON. It
//! limits itself before it reads a byte: memory, time, and no further file, connection or process.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use domain::attachment::{MAX_READ_BYTES, Unread};
use domain::document::DocumentText;

/// The hidden subcommand of the child.
pub const COMMAND: &str = "read-document";
/// The result of a child, as it writes it.
pub(crate) type Outcome = Result<DocumentText, Unread>;

/// The largest private memory of a child, in bytes.
pub const MEMORY_MAX: u64 = 256 << 20;
/// The processor time of a child, in seconds.
const CPU_SECONDS: u64 = 8;
/// The longest life of a child, in seconds. Its parent ends it earlier, if there is one.
const LIFE_SECONDS: i64 = 20;
/// The number of open files: standard input, output and error. Every further one is refused, connections included.
const FILES_MAX: u64 = 3;
/// The lowest priority: members who wait for other answers go first.
const NICENESS: i32 = 10;
/// The most likely victim when memory is scarce; otherwise the kernel may choose the bot.
const OOM_SCORE: &[u8] = b"1000";

/// Reads a document of standard input and writes its text, at most `most` Unicode scalar values, to standard output.
///
/// # Errors
/// The limits cannot be set, or a pipe is broken.
pub fn run(most: usize) -> io::Result<()> {
    confine()?;
    let mut bytes = Vec::new();
    io::stdin().lock().take(MAX_READ_BYTES + 1).read_to_end(&mut bytes)?;
    let outcome = catch_unwind(AssertUnwindSafe(|| super::read(&bytes, most))).unwrap_or(Err(Unread::Damaged));
    let mut line = serde_json::to_vec(&outcome)?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

/// Limits this process.
fn confine() -> io::Result<()> {
    // A system without these refuses; they are only courtesy.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let _ = rustix::process::nice(NICENESS);
    std::thread::Builder::new().name("watch".into()).spawn(watch)?;
    for (resource, most) in [
        (Resource::Data, MEMORY_MAX),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Nofile, FILES_MAX),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ] {
        // A limit that the system already sets lower cannot be raised.
        let limit = Some(getrlimit(resource).maximum.map_or(most, |set| set.min(most)));
        setrlimit(resource, Rlimit { current: limit, maximum: limit })?;
    }
    Ok(())
}

/// Ends this process when its output has no reader, because the bot has died, or when its life is over.
fn watch() {
    let (stdout, life) = (rustix::stdio::stdout(), Timespec { tv_sec: LIFE_SECONDS, tv_nsec: 0 });
    let mut pipes = [PollFd::new(&stdout, PollFlags::empty())];
    while poll(&mut pipes, Some(&life)) == Err(rustix::io::Errno::INTR) {}
    std::process::abort();
}
