//! The captured log of one test, line by line.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tracing::Dispatch;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The fields of one line, as text.
pub type Line = BTreeMap<String, String>;

/// Captures the log lines of this thread while it lives.
pub struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

impl Log {
    pub fn capture() -> Self {
        // With a single subscriber, tracing caches the interest of the thread that first reaches a call site. Threads
        // of other tests would disable the call site for all threads.
        static COMPANY: OnceLock<[Dispatch; 2]> = OnceLock::new();
        COMPANY.get_or_init(|| [(); 2].map(|()| Dispatch::new(tracing_subscriber::registry())));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Capture(Arc::clone(&lines)));
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the lines of one event so far.
    pub fn of(&self, event: &str) -> Vec<Line> {
        let lines = self.lines.lock();
        lines.iter().filter(|line| line.get("event").is_some_and(|name| name == event)).cloned().collect()
    }

    /// Returns one field of each line of one event so far.
    pub fn column(&self, event: &str, field: &str) -> Vec<String> {
        self.of(event).into_iter().map(|mut line| line.remove(field).unwrap_or_default()).collect()
    }

    /// Deletes the lines so far.
    pub fn clear(&self) {
        self.lines.lock().clear();
    }
}

struct Capture(Arc<Mutex<Vec<Line>>>);

impl<S: tracing::Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let mut line = Fields(Line::new());
        event.record(&mut line);
        line.0.insert("level".to_owned(), event.metadata().level().to_string());
        self.0.lock().push(line.0);
    }
}

struct Fields(Line);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
