//! A thread that writes lines, so that a stalled reader never blocks the program.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::Level;

use crate::LogFormat;
use crate::events::LOG_SHED;
use crate::line::ROOT;
use crate::tally::Tally;
use crate::turn_lines::TurnLines;
use domain::shed::Shed;
use ports::Clock;
use ports::vitals::rfc3339;

const QUEUED_LINES: usize = 4096;

/// The most queued bytes: many times the size of that many usual lines.
const QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// The time for which the writer collects lines before a write: waking it and writing cost more than formatting a line.
const GATHER: Duration = Duration::from_millis(25);

/// The number of bytes that triggers an immediate write.
const GATHERED_ENOUGH: usize = 64 * 1024;

/// The largest buffer kept after its lines are written.
const KEPT_BYTES: usize = 256 * 1024;

/// The timeout of writing the last lines at the end of the program.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Owns the thread. Dropping it flushes.
#[derive(Debug)]
pub struct Writer(Lines);

/// The sender of lines. Never waits: a line is dropped and counted if the queue is full.
#[derive(Debug, Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    tally: Arc<Tally>,
    /// Signals the first line, or the end of gathering.
    filled: Condvar,
    /// Signals that lines were written or the thread ended.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    lines: usize,
    /// The number of dropped lines not yet reported in the log.
    shed: u64,
    /// True if the queue is written without gathering.
    urgent: bool,
    /// True if the thread must end once all is written.
    closing: bool,
    ended: bool,
    /// The number of accepted lines.
    taken: u64,
    /// The number of lines passed to the output.
    written: u64,
}

impl Queue {
    const fn is_idle(&self) -> bool {
        self.bytes.is_empty() && self.shed == 0 && !self.closing
    }

    fn hurries(&self) -> bool {
        self.urgent || self.closing || self.bytes.len() >= GATHERED_ENOUGH
    }
}

impl Writer {
    /// Starts the thread. Written lines are also stored in `kept`, if given.
    pub fn start(
        out: Box<dyn Write + Send>,
        clock: Arc<dyn Clock>,
        format: LogFormat,
        (kept, tally): (Option<TurnLines>, Arc<Tally>),
    ) -> Result<Self, String> {
        let lines = Lines(Arc::new(Shared { tally, ..Shared::default() }));
        let shared = Arc::clone(&lines.0);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                shared.write_all(out, (kept.as_ref(), clock.as_ref()), |out, shed| {
                    report_shed(out, shed, clock.as_ref(), format);
                });
                shared.queue.lock().ended = true;
                shared.emptied.notify_all();
            })
            .map_err(|error| format!("cannot start the log's thread: {error}"))?;
        Ok(Self(lines))
    }

    pub fn lines(&self) -> Lines {
        self.0.clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut queue = shared.queue.lock();
        queue.closing = true;
        shared.filled.notify_one();
        // The wait for a stalled reader is bounded.
        shared.emptied.wait_while_for(&mut queue, |queue| !queue.ended, CLOSE_TIMEOUT);
    }
}

impl Lines {
    /// Queues a line with its line break. A warning or error is written without gathering.
    pub fn send(&self, line: &str, level: Level) {
        let mut queue = self.0.queue.lock();
        if queue.lines >= QUEUED_LINES || queue.bytes.len() + line.len() > QUEUED_BYTES {
            queue.shed += 1;
            drop(queue);
            self.0.tally.shed_here(Shed::Log, 1);
            return;
        }
        let (first, hurried) = (queue.bytes.is_empty(), queue.hurries());
        queue.bytes.extend_from_slice(line.as_bytes());
        queue.lines += 1;
        queue.taken += 1;
        queue.urgent |= level <= Level::WARN;
        let wakes = first || (!hurried && queue.hurries());
        drop(queue);
        if wakes {
            self.0.filled.notify_one();
        }
    }

    /// Waits until all queued lines are written, for a bounded time.
    pub fn flush(&self, within: Duration) {
        let mut queue = self.0.queue.lock();
        let until = queue.taken;
        queue.urgent = true;
        self.0.filled.notify_one();
        self.0.emptied.wait_while_for(&mut queue, |queue| queue.written < until && !queue.ended, within);
    }
}

impl Shared {
    /// Errors of the output are ignored: there is no other place to report them.
    fn write_all(
        &self,
        mut out: Box<dyn Write + Send>,
        (kept, clock): (Option<&TurnLines>, &dyn Clock),
        report: impl Fn(&mut dyn Write, u64),
    ) {
        let mut batch = Vec::new();
        loop {
            let (lines, shed, closing) = self.next(&mut batch);
            if let Some(kept) = kept {
                kept.push(&batch, clock.now());
            }
            let _ = out.write_all(&batch);
            if shed > 0 {
                report(&mut out, shed);
            }
            let _ = out.flush();
            batch.clear();
            batch.shrink_to(KEPT_BYTES);
            self.queue.lock().written += lines;
            self.emptied.notify_all();
            if closing {
                return;
            }
        }
    }

    /// Waits for lines and collects them in the empty `batch`. Returns their number, the number of dropped ones, and
    /// true if they are the last.
    fn next(&self, batch: &mut Vec<u8>) -> (u64, u64, bool) {
        let mut queue = self.queue.lock();
        self.filled.wait_while(&mut queue, |queue| queue.is_idle());
        self.filled.wait_while_for(&mut queue, |queue| !queue.hurries(), GATHER);
        std::mem::swap(batch, &mut queue.bytes);
        queue.urgent = false;
        (std::mem::take(&mut queue.lines) as u64, std::mem::take(&mut queue.shed), queue.closing)
    }
}

fn report_shed(out: &mut dyn Write, lines: u64, clock: &dyn Clock, format: LogFormat) {
    let at = rfc3339(clock.now());
    let event = LOG_SHED;
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
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use domain::ids::Timestamp;

    struct Epoch;

    impl Clock for Epoch {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
    }

    /// Blocks until the gate opens, like a stalled reader.
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
        let writer = Writer::start(Box::new(out), Arc::new(Epoch), LogFormat::Json, (None, Arc::default())).unwrap();
        let lines = writer.lines();
        lines.send("first\n", Level::INFO);
        inside.recv().unwrap();
        for _ in 0..QUEUED_LINES + 3 {
            lines.send("next\n", Level::INFO);
        }
        drop(open);
        drop(writer);
        let text = String::from_utf8(written.lock().clone()).unwrap();
        assert_eq!(text.lines().filter(|line| *line == "next").count(), QUEUED_LINES);
        let told = text.lines().find(|line| line.contains("log.shed")).unwrap();
        let told: serde_json::Value = serde_json::from_str(told).unwrap();
        assert_eq!((&told["event"], &told["lines"]), (&"log.shed".into(), &3.into()));
    }

    /// Reports each write and its time.
    struct Told(Sender<String>);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.send(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn told() -> (Writer, Receiver<String>) {
        let (tell, written) = channel();
        (
            Writer::start(Box::new(Told(tell)), Arc::new(Epoch), LogFormat::Json, (None, Arc::default())).unwrap(),
            written,
        )
    }

    #[test]
    fn lines_are_gathered_in_their_order_and_written_soon() {
        let (writer, written) = told();
        for number in 0..100 {
            writer.lines().send(&format!("{number}\n"), Level::INFO);
        }
        let mut text = String::new();
        let mut writes = 0;
        while text.lines().count() < 100 {
            text.push_str(&written.recv_timeout(CLOSE_TIMEOUT).expect("all lines arrive before the program ends"));
            writes += 1;
        }
        assert_eq!(text, (0..100).map(|number| format!("{number}\n")).collect::<String>());
        assert!(writes < 50, "{writes} writes");
    }

    #[test]
    fn a_warning_takes_all_before_it_along_without_gathering() {
        let lines = Lines(Arc::default());
        lines.send("quiet\n", Level::INFO);
        assert!(!lines.0.queue.lock().hurries());
        lines.send("loud\n", Level::WARN);
        let mut queue = lines.0.queue.lock();
        assert!(queue.hurries());
        assert_eq!(queue.bytes, b"quiet\nloud\n");
        queue.urgent = false;
        queue.bytes = vec![b'x'; GATHERED_ENOUGH];
        assert!(queue.hurries(), "this many bytes are written without gathering");
    }

    #[test]
    fn a_flush_waits_for_what_was_handed_in_and_not_for_a_reader_who_does_not_read() {
        let (writer, written) = told();
        writer.lines().send("last words\n", Level::DEBUG);
        writer.lines().flush(CLOSE_TIMEOUT);
        assert_eq!(written.try_recv().as_deref(), Ok("last words\n"));

        let (open, gate) = channel();
        let (entered, inside) = channel();
        let out = Stuck { gate, entered, written: Arc::default() };
        let stuck = Writer::start(Box::new(out), Arc::new(Epoch), LogFormat::Json, (None, Arc::default())).unwrap();
        stuck.lines().send("unread\n", Level::ERROR);
        inside.recv().unwrap();
        stuck.lines().flush(Duration::from_millis(1));
        drop(open);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let lines = Lines(Arc::default());
        let long = "x".repeat(16 * 1024);
        for _ in 0..QUEUED_BYTES / long.len() + 5 {
            lines.send(&long, Level::INFO);
        }
        let queue = lines.0.queue.lock();
        assert_eq!((queue.bytes.len(), queue.shed), (QUEUED_BYTES, 5));
    }

    #[test]
    fn a_reader_who_is_gone_stops_nobody() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
        let writer = Writer::start(Box::new(Gone), Arc::new(Epoch), LogFormat::Json, (None, Arc::default())).unwrap();
        for _ in 0..3 {
            writer.lines().send("unheard\n", Level::ERROR);
            writer.lines().flush(CLOSE_TIMEOUT);
        }
        let queue = writer.0.0.queue.lock();
        assert_eq!((queue.written, queue.bytes.len()), (3, 0));
    }
}
