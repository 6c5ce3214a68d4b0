//! The start of a process, which may install the server first: bounded by its timeout, and by a multiple of that while the processes make
//! progress. An installer that is killed in its work may leave a broken cache behind.

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

/// The longest time between two looks at what the processes do.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The least looks within the timeout.
const LOOKS: u32 = 8;
/// Looks without progress after which a start that is over its timeout is given up.
const QUIET_LOOKS: u32 = 3;
/// Processor time between two looks that counts as progress, in ticks of 10 ms.
const TICKS: u64 = 3;
/// Bytes read and written between two looks that count as progress.
const BYTES: u64 = 4 * 1024;

/// The process that is being started.
#[derive(Clone, Default)]
pub(super) struct Child(Arc<Mutex<Option<Pid>>>);

impl Child {
    /// Records the process that was started last.
    pub(super) fn begins(&self, group: Group) {
        *self.0.lock() = Some(group.0);
    }

    /// Reads what the process and its descendants did so far.
    async fn work(&self) -> Option<Work> {
        let root = (*self.0.lock())?;
        tokio::task::spawn_blocking(move || Work::below(root)).await.ok()
    }
}

/// What a process and its descendants did so far.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// Processor time, also of children that ended.
    ticks: u64,
    /// Bytes read and written.
    bytes: u64,
    /// The sum of the ids of the processes, which tells sets of processes apart.
    ids: u64,
}

impl Work {
    fn below(root: Pid) -> Self {
        let mut work = Self::default();
        for pid in std::iter::once(root).chain(below(root)) {
            let pid = pid.as_raw_nonzero();
            let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            // utime, stime, cutime and cstime stand 11 fields behind the name, which may hold any character.
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

    /// True if the processes did something between the two looks. The bytes of a process that ended are gone.
    const fn is_progress(self, before: Self) -> bool {
        self.ids != before.ids
            || self.ticks >= before.ticks.saturating_add(TICKS)
            || self.bytes.abs_diff(before.bytes) >= BYTES
    }
}

/// Begins a session with a process within its timeout. While the processes make progress, the timeout is extended up to
/// [`START_LONGEST`] times.
///
/// # Errors
/// There is no session, or none in time.
pub(super) async fn within<S>(
    timeout: Duration,
    child: &Child,
    begin: impl Future<Output = Result<S, Failure>>,
) -> Result<S, Failure> {
    let begun = Instant::now();
    let every = (timeout / LOOKS).min(LOOK_EVERY);
    let (due, last) = (begun + timeout, begun + timeout * START_LONGEST);
    let mut begin = pin!(begin);
    // What happened long before the timeout does not matter.
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

    /// Never begins.
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
