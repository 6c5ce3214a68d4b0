//! A thread that writes lines, so that a reader who stops reading never stops the program.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::domain::shed::Shed;
use crate::ports::Clock;
use crate::ports::vitals::rfc3339;
use crate::telemetry::LogFormat;
use crate::telemetry::line::ROOT;

/// Lines that may wait for the writer. At the longest line this is 64 MiB; at a usual one, 1 MiB.
const QUEUED_LINES: usize = 4096;

/// How long the writer lets further lines join the first one: waking it for each line costs more than making the line.
const GATHER: Duration = Duration::from_millis(1);

/// How much is written at once.
const BATCH_BYTES: usize = 64 * 1024;

/// How long the end of the program waits for room in the queue, and then for the last lines.
const FLUSH_DEADLINE: Duration = Duration::from_secs(2);

/// Owns the thread. Dropping it flushes.
#[derive(Debug)]
pub struct Writer {
    lines: Lines,
    done: Receiver<()>,
}

/// Where lines are handed in. Never waits: a line that finds the queue full is counted and thrown away.
#[derive(Debug, Clone)]
pub struct Lines {
    queue: SyncSender<Item>,
    shed: Arc<AtomicU64>,
}

enum Item {
    Line(String),
    Close,
}

impl Writer {
    /// Starts the thread.
    pub fn start(out: Box<dyn Write + Send>, clock: Arc<dyn Clock>, format: LogFormat) -> Result<Self, String> {
        let (queue, items) = sync_channel(QUEUED_LINES);
        let (finished, done) = sync_channel(1);
        let shed = Arc::new(AtomicU64::new(0));
        let counter = shed.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                write_all(out, &items, |out| report_shed(out, &counter, clock.as_ref(), format));
                let _ = finished.send(());
            })
            .map_err(|error| format!("cannot start the log's thread: {error}"))?;
        Ok(Self { lines: Lines { queue, shed }, done })
    }

    /// Where lines are handed in.
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut waited = Duration::ZERO;
        while let Err(refused) = self.lines.queue.try_send(Item::Close) {
            // A queue that stays full is not read.
            if matches!(refused, TrySendError::Disconnected(_)) || waited >= FLUSH_DEADLINE {
                return;
            }
            std::thread::sleep(GATHER);
            waited += GATHER;
        }
        match self.done.recv_timeout(FLUSH_DEADLINE) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

impl Lines {
    /// Hands in a line with its line break.
    pub fn send(&self, line: String) {
        if self.queue.try_send(Item::Line(line)).is_err() {
            self.shed.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("staffai_shed_total", "where" => Shed::Log.as_str()).increment(1);
        }
    }
}

/// Errors of the output are passed over: there is no other place to tell them.
fn write_all(mut out: Box<dyn Write + Send>, items: &Receiver<Item>, report: impl Fn(&mut dyn Write)) {
    let mut batch = Vec::new();
    while let Ok(item) = items.recv() {
        let mut next = Some(item);
        if !matches!(next, Some(Item::Close)) {
            std::thread::sleep(GATHER);
        }
        while let Some(item) = next {
            match item {
                Item::Line(line) => batch.extend_from_slice(line.as_bytes()),
                Item::Close => {
                    let _ = out.write_all(&batch);
                    report(&mut out);
                    let _ = out.flush();
                    return;
                }
            }
            if batch.len() >= BATCH_BYTES {
                let _ = out.write_all(&batch);
                batch.clear();
            }
            next = items.try_recv().ok();
        }
        let _ = out.write_all(&batch);
        batch.clear();
        report(&mut out);
        let _ = out.flush();
    }
}

fn report_shed(out: &mut dyn Write, shed: &AtomicU64, clock: &dyn Clock, format: LogFormat) {
    let lines = shed.swap(0, Ordering::Relaxed);
    if lines == 0 {
        return;
    }
    let at = rfc3339(clock.now());
    let event = "log.shed";
    drop(match format {
        LogFormat::Json => {
            let line = serde_json::json!({"timestamp": at, "level": "WARN", "message": "log lines were shed", "actor": ROOT, "event": event, "lines": lines});
            writeln!(out, "{line}")
        }
        LogFormat::Pretty { .. } => writeln!(out, "{at}  WARN log lines were shed event={event} lines={lines}"),
    });
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::domain::ids::Timestamp;

    struct Epoch;

    impl Clock for Epoch {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
    }

    /// Writes nothing until the gate opens, as a reader who stopped reading.
    struct Stuck {
        gate: Receiver<()>,
        entered: Sender<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.entered.send(());
            let _ = self.gate.recv();
            self.written.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_output_sheds_lines_and_says_how_many() {
        let (open, gate) = channel();
        let (entered, inside) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let out = Stuck { gate, entered, written: written.clone() };
        let writer = Writer::start(Box::new(out), Arc::new(Epoch), LogFormat::Json).unwrap();
        let lines = writer.lines();
        lines.send("first\n".to_owned());
        inside.recv().unwrap();
        for _ in 0..QUEUED_LINES + 3 {
            lines.send("next\n".to_owned());
        }
        drop(open);
        drop(writer);
        let text = String::from_utf8(written.lock().clone()).unwrap();
        assert_eq!(text.lines().filter(|line| *line == "next").count(), QUEUED_LINES);
        let told = text.lines().find(|line| line.contains("log.shed")).unwrap();
        let told: serde_json::Value = serde_json::from_str(told).unwrap();
        assert_eq!((&told["event"], &told["lines"]), (&"log.shed".into(), &3.into()));
    }
}
