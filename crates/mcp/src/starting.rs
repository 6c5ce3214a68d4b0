//! The start of a process, which may install the server first. It is bounded by its timeout, which is extended while
//! the processes make progress: killing an installer may leave a corrupt cache.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Pid;
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::guardian::below;
use super::process::Group;
use ports::tools::START_LONGEST;

/// The longest interval between two progress checks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The least number of checks within the timeout.
const LOOKS: u32 = 8;
/// The number of checks without progress after which an overdue start is aborted.
const QUIET_LOOKS: u32 = 3;
/// Processor time between two checks that counts as progress, in ticks of 10 ms.
const TICKS: u64 = 3;
/// Bytes read and written between two checks that count as progress.
const BYTES: u64 = 4 * 1024;

#[derive(Clone, Default)]
pub(super) struct Child(Arc<Mutex<Option<Pid>>>);

impl Child {
    /// Records the most recently started process.
    pub(super) fn begins(&self, group: Group) {
        *self.0.lock() = Some(group.0);
    }

    /// Reads the work of the process and its descendants.
    async fn work(&self) -> Option<Work> {
        let root = (*self.0.lock())?;
        tokio::task::spawn_blocking(move || Work::below(root)).await.ok()
    }
}

/// The work of a process and its descendants.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// Processor time, including children that exited.
    ticks: u64,
    bytes: u64,
    /// The sum of the process ids, which distinguishes sets of processes.
    ids: u64,
}

impl Work {
    fn below(root: Pid) -> Self {
        let mut work = Self::default();
        for pid in std::iter::once(root).chain(below(root)) {
            let pid = pid.as_raw_nonzero();
            let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            // utime, stime, cutime and cstime are 11 fields after the name, which may contain any character.
            let stat = read("stat");
            let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(4);
            work.ticks += fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
            let io = read("io");
            let fields = io.lines().filter_map(|line| line.strip_prefix("rchar: ").or(line.strip_prefix("wchar: ")));
            work.bytes += fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
            work.ids += u64::from(pid.get().unsigned_abs());
        }
        work
    }

    /// True if there was progress between two checks. The bytes of a process that exited are lost.
    const fn is_progress(self, before: Self) -> bool {
        self.ids != before.ids
            || self.ticks >= before.ticks.saturating_add(TICKS)
            || self.bytes.abs_diff(before.bytes) >= BYTES
    }
}

/// Starts a session with a process within its timeout. While the processes make progress, the timeout is extended up to
/// [`START_LONGEST`] times.
///
/// # Errors
/// The session could not be started, or not in time.
pub(super) async fn within<S>(
    timeout: Duration,
    child: &Child,
    begin: impl Future<Output = Result<S, Failure>>,
) -> Result<S, Failure> {
    let begun = Instant::now();
    let every = (timeout / LOOKS).min(LOOK_EVERY);
    let (due, last) = (begun + timeout, begun + timeout * START_LONGEST);
    let mut begin = pin!(begin);
    // Progress long before the timeout is irrelevant.
    let mut next = due - every * (QUIET_LOOKS + 1);
    let (mut before, mut moved) = (None, begun);
    loop {
        if let Ok(session) = timeout_at(next, &mut begin).await {
            return session;
        }
        let now = child.work().await;
        if let (Some(now), Some(before)) = (now, before)
            && Work::is_progress(now, before)
        {
            moved = next;
        }
        before = now;
        if next >= last || (next >= due && next - moved >= every * QUIET_LOOKS) {
            return Err(Failure::SlowStart(begun.elapsed()));
        }
        next += every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn never() -> Result<(), Failure> {
        std::future::pending().await
    }

    fn shell(script: &str) -> (tokio::process::Child, Child) {
        let mut command = tokio::process::Command::new("/bin/sh");
        let process = command.args(["-c", script]).kill_on_drop(true).spawn().unwrap();
        let child = Child::default();
        child.begins(Group(Pid::from_raw(process.id().unwrap().try_into().unwrap()).unwrap()));
        (process, child)
    }

    #[tokio::test]
    async fn a_start_that_makes_progress_goes_on_and_one_that_makes_none_ends_at_its_timeout() {
        let timeout = Duration::from_millis(1_600);
        let (_process, idle) = shell("sleep 60");
        let begun = Instant::now();
        assert!(matches!(within(timeout, &idle, never()).await, Err(Failure::SlowStart(_))));
        assert!((timeout..timeout * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // An installer that writes its files.
        let (_process, busy) = shell("while :; do head -c 8192 /dev/zero >/dev/null; sleep 0.05; done");
        let served = async {
            tokio::time::sleep(timeout * 3).await;
            Ok(())
        };
        assert!(within(timeout, &busy, served).await.is_ok());
        let begun = Instant::now();
        assert!(matches!(within(timeout / 2, &busy, never()).await, Err(Failure::SlowStart(_))));
        assert!(begun.elapsed() >= timeout / 2 * START_LONGEST, "{:?}", begun.elapsed());
    }
}
