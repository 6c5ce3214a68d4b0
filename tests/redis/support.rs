//! Stores on a server, and their log.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use documents::process::DocumentReader;
use parking_lot::Mutex;
use playground::demo_model::DemoModel;
use playground::service::Service;
use ports::{Faults, Store, StoreStatus, Write};
use secrecy::SecretString;
use settings::sources::Sources;
use staffai::app::assemble::Launch;
use staffai::app::configured::Configured;
use staffai::app::system::{SystemClock, SystemDice};
use store::redis::opener::Opener;
use store::redis::{self, Redis};
use store::resilient::Resilient;
use telemetry::Redaction;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::server::Server;

/// Timeout of each step, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// More than any call of a store on a failing server may take: four times its own deadline of two seconds.
pub const STALL: Duration = Duration::from_secs(8);

/// Opens the store as the program does.
pub async fn store(url: &str) -> Resilient<Redis> {
    let opener = Opener::new(&SecretString::from(url.to_owned())).unwrap();
    Resilient::start_with(move || opener.open(), Arc::new(SystemClock), redis::bounds()).await.unwrap()
}

/// Returns the variables of a bot on this platform, with this model. It writes only answers.
pub fn platform_and_model(service: &Service, model: &DemoModel) -> Vec<(&'static str, String)> {
    vec![
        ("DISCORD_BOT_TOKEN", service.token().to_owned()),
        ("DISCORD_API_URL", service.api_url()),
        ("LITELLM_API_URL", model.base_url()),
        ("LITELLM_MODEL", "staffai-demo".to_owned()),
        ("RESPONSE_CHANCE", "0".to_owned()),
        ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0".to_owned()),
    ]
}

/// The same on this server.
pub fn bot_on(server: &Server, service: &Service, model: &DemoModel) -> Vec<(&'static str, String)> {
    let mut variables = platform_and_model(service, model);
    variables.push(("REDIS_URL", server.url()));
    variables
}

/// Returns the log of the process in this folder.
pub fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Returns the number of lines of an event in the log of the process in this folder.
pub fn count(folder: &Path, event: &str) -> usize {
    log(folder).matches(&format!("\"event\":\"{event}\"")).count()
}

/// Waits until the process in this folder logs an event.
pub async fn logs(folder: &Path, event: &str) {
    until(&format!("{} logs {event}", folder.display()), || count(folder, event) > 0).await;
}

/// Returns what a command of the program prints in this folder.
pub fn output(folder: &Path, variables: &[(&str, String)], arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.args(arguments).env_clear().envs(variables.iter().cloned()).current_dir(folder).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Returns the inputs of a start with these variables.
pub fn launch(environment: &BTreeMap<String, String>, faults: Arc<dyn Faults>) -> Launch {
    let loaded = settings::load(&Sources::from_maps(environment.clone(), BTreeMap::new()));
    Launch {
        configured: Configured {
            settings: loaded.unwrap_or_else(|problems| panic!("{problems:?}")).settings,
            lookup: Arc::new(|_| None),
            redaction: Redaction::default(),
        },
        reread: None,
        alone: false,
        clock: Arc::new(SystemClock),
        dice: Arc::new(SystemDice),
        documents: Arc::new(DocumentReader::at(env!("CARGO_BIN_EXE_staffai"))),
        faults,
        observers: Vec::new(),
        metrics: Arc::new(String::new),
        tally: Arc::default(),
        logged: Arc::new(telemetry::TurnLines::default()),
        stop: CancellationToken::new(),
    }
}

pub fn put(key: &str, value: &str) -> Write {
    Write::Put { key: key.into(), value: value.into(), ttl: None }
}

pub fn row(key: &str, value: &str) -> (String, String) {
    (key.into(), value.into())
}

pub fn reason(store: &impl Store) -> Option<String> {
    match store.status() {
        StoreStatus::Ready => None,
        StoreStatus::Degraded(reason) => Some(reason),
    }
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, waited).await.is_ok(), "this never came true: {what}");
}

pub async fn recovered(store: &impl Store) {
    until("the store recovers", || reason(store).is_none()).await;
}

/// Returns the result of a call, which must not take longer than [`STALL`].
pub async fn soon<T>(call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let value = call.await;
    assert!(begun.elapsed() < STALL, "it took {:?}", begun.elapsed());
    value
}

/// Captures the log of this thread while it lives.
pub struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl Log {
    pub fn listen() -> Self {
        // Without a subscriber for the whole process, call sites would be cached as disabled.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let lines = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Listener(Arc::clone(&lines)));
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Returns the number of log lines of an event.
    pub fn count(&self, event: &str) -> usize {
        let wanted = format!("event=\"{event}\"");
        self.lines.lock().iter().filter(|line| line.contains(&wanted)).count()
    }

    /// True if any line has this text.
    pub fn mentions(&self, text: &str) -> bool {
        self.lines.lock().iter().any(|line| line.contains(text))
    }

    /// Checks that the store failed once and recovered once.
    pub fn is_of_one_illness(&self) {
        let lines: Vec<String> = self.lines.lock().iter().filter(|line| line.contains("store")).cloned().collect();
        assert_eq!((self.count("store.degraded"), self.count("store.recovered")), (1, 1), "{lines:#?}");
    }
}

struct Listener(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        use std::fmt::Write as _;
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}
