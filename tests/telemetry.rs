//! The log of a whole process: it can be started only once, so this is a program of its own.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;

use domain::ids::Timestamp;
use ports::Clock;
use telemetry::{self, LogFormat, LogOptions};

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn options(page: &Page) -> LogOptions {
    LogOptions {
        filter: "info".to_owned(),
        format: LogFormat::Json,
        content: false,
        redact: vec!["hunter22".into()].into(),
        out: Box::new(page.clone()),
        clock: Arc::new(Epoch),
        kept: None,
        tally: Arc::default(),
    }
}

#[test]
fn panics_and_events_reach_the_output_before_the_guard_is_gone() {
    let page = Page::default();
    let guard = telemetry::init(options(&page)).unwrap();
    assert_eq!(telemetry::init(options(&page)).unwrap_err(), "a log was already started in this process");

    tracing::info!(target: "staffai", event = "drain.started", "draining");
    let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(|| {
        let _span = tracing::info_span!(target: "staffai", "actor", actor = "staffai/discord/shard:0").entered();
        panic!("no hunter22 for \"a diary\"");
    });
    assert!(thread.unwrap().join().is_err());
    drop(guard);

    let text = String::from_utf8(page.0.lock().clone()).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["event"], "drain.started");
    let panicked = &lines[1];
    assert_eq!(
        (&panicked["event"], &panicked["level"], &panicked["thread"], &panicked["message"], &panicked["actor"]),
        (
            &"panic".into(),
            &"ERROR".into(),
            &"shard".into(),
            &"no *** for \"…\"".into(),
            &"staffai/discord/shard:0".into()
        )
    );
    assert!(panicked["location"].as_str().unwrap().starts_with("tests/telemetry.rs:"), "{panicked}");
}
