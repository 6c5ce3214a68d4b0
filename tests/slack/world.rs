//! The workspace, the model and the bot of one story.

use documents::process::DocumentReader;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ports::{Clock, NoFaults};
use serde_json::Value;
use settings::sources::Sources;
use staffai::app::assemble::Launch;
use staffai::app::configured::Configured;
use staffai::app::system::{SystemClock, SystemDice};
use staffai::app::{App, Ended};
use telemetry::Redaction;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::model::Model;
use crate::process::Process;
use playground::workspace::{Message, Options, Said, Workspace};

/// The token of the bot user.
pub const BOT_TOKEN: &str = "xoxb-of-the-bot";
/// The token of the app.
pub const APP_TOKEN: &str = "xapp-of-the-app";
/// Timeout of a story.
const STORY: Duration = Duration::from_secs(120);
/// Timeout of one expectation.
pub const SOON: Duration = Duration::from_secs(30);
/// Time in which a thread is checked for a second answer that must not come.
const CALM: Duration = Duration::from_millis(300);

/// Runs one story on its own runtime, with a timeout.
pub fn story(told: impl Future<Output = ()>) {
    story_within(STORY, told);
}

/// Like [`story`], with another timeout.
pub fn story_within(timeout: Duration, told: impl Future<Output = ()>) {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    show_log();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(timeout, told).await });
    runtime.shutdown_timeout(Duration::from_secs(1));
    assert!(ended.is_ok(), "the story took longer than {timeout:?}");
}

/// Shows the log of the bots in this process if `BOT_LOG` is set, for example to `debug`.
#[expect(clippy::disallowed_methods, reason = "a person who runs the tests asks for it")]
fn show_log() {
    if let Ok(filter) = std::env::var("BOT_LOG") {
        // Another story may have set it up.
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).try_init();
    }
}

pub struct World {
    pub service: Workspace,
    pub model: Model,
    pub env: BTreeMap<String, String>,
    dir: TempDir,
    http: SocketAddr,
    bot: parking_lot::Mutex<Option<Bot>>,
}

/// The bot in this process.
struct Bot {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

impl World {
    /// Starts a workspace whose bot is connected.
    pub async fn begin() -> Self {
        let world = Self::without_bot().await;
        world.start().await;
        world
    }

    pub async fn without_bot() -> Self {
        Self::of(options()).await
    }

    /// A world without a running bot, whose workspace has another app with these tokens.
    pub async fn with_other_app(bot: &str, app: &str) -> Self {
        Self::of(Options { other_app: Some((bot.to_owned(), app.to_owned())), ..options() }).await
    }

    async fn of(options: Options) -> Self {
        let (service, model) = (Workspace::start(options).await.unwrap(), Model::start().await);
        let dir = tempfile::tempdir().unwrap();
        let http = own_address();
        let models = dir.path().join("models.json");
        std::fs::write(&models, r#"{"models": {}}"#).unwrap();
        let env = [
            ("SLACK_BOT_TOKEN", BOT_TOKEN.to_owned()),
            ("SLACK_APP_TOKEN", APP_TOKEN.to_owned()),
            ("SLACK_API_URL", service.url().to_owned()),
            ("LITELLM_API_URL", model.url().to_owned()),
            ("LITELLM_MODEL", "scripted".to_owned()),
            ("STAFFAI_MODELS", models.display().to_string()),
            ("STAFFAI_HTTP_ADDR", http.to_string()),
            ("STAFFAI_DATA_DIR", dir.path().join("data").display().to_string()),
            ("STAFFAI_LLM__TIMEOUT", "2s".to_owned()),
            ("STAFFAI_TURN__DEADLINE", "10s".to_owned()),
            ("STAFFAI_DRAIN_SECONDS", "5".to_owned()),
            ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0".to_owned()),
            ("RATE_LIMIT_COUNT", "1000".to_owned()),
            ("TOKEN_RATE_LIMIT_COUNT", "1000000000".to_owned()),
            ("LOG_FORMAT", "json".to_owned()),
        ];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { service, model, env, dir, http, bot: parking_lot::Mutex::new(None) }
    }

    /// Starts the bot in this process and waits until both of its connections are open.
    pub async fn start(&self) {
        let files = BTreeMap::from([(self.env["STAFFAI_MODELS"].clone().into(), String::new())]);
        let loaded = settings::load(&Sources::from_maps(self.env.clone(), files));
        let launch = Launch {
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
            faults: Arc::new(NoFaults),
            observers: Vec::new(),
            metrics: Arc::new(String::new),
            tally: Arc::default(),
            logged: Arc::new(NoLog),
            stop: CancellationToken::new(),
        };
        let mut app = App::start(launch).await.unwrap_or_else(|error| panic!("{error}"));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let ended = app.serve(stopped).await;
            if !matches!(ended, Ended::GaveUp) {
                app.stop().await;
            }
            ended
        });
        *self.bot.lock() = Some(Bot { stop, task });
        self.connected().await;
    }

    /// Waits until both connections are open.
    pub async fn connected(&self) {
        self.until("both connections", || (self.service.connections().0 >= 2).then_some(())).await;
    }

    /// Stops the bot in this process.
    pub async fn stop(&self) {
        let bot = self.bot.lock().take().expect("the bot runs");
        let _ = bot.stop.send(());
        let ended = tokio::time::timeout(SOON, bot.task).await.expect("it ends soon").expect("no panic");
        assert_eq!(ended, Ended::StopRequested);
    }

    /// Starts the bot as a process of its own and waits until it is connected.
    pub async fn process(&self, name: &str) -> Process {
        let process = Process::start(self.dir.path(), name, &self.env);
        let deadline = Instant::now() + SOON;
        while self.service.connections().0 < 2 {
            assert!(Instant::now() < deadline, "the process did not connect:\n{}", process.output());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        process
    }

    /// Returns the folder of the bot.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Awaits the first answer to a message.
    pub async fn answer_to(&self, said: &Said) -> Message {
        self.until("an answer", || self.service.answers(said).into_iter().next()).await
    }

    /// Awaits the answer to a message, and checks that it stays the only one.
    pub async fn only_answer_to(&self, said: &Said) -> Message {
        let answer = self.answer_to(said).await;
        tokio::time::sleep(CALM).await;
        let all = self.service.answers(said);
        assert_eq!(all.len(), 1, "{all:?}");
        answer
    }

    /// Waits until `look` returns a value.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(found) = look() {
                return found;
            }
            let over = self.bot.lock().as_ref().is_some_and(|bot| bot.task.is_finished());
            assert!(!over, "the bot ended while it was to show {what}");
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the address of a path of the bot.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// Returns a page of the bot; `None` while it has no pages.
    pub async fn page(&self, path: &str) -> Option<Value> {
        let text = reqwest::get(&format!("http://{}{path}", self.http)).await.ok()?.text().await.ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns a page of the bot.
    pub async fn json(&self, path: &str) -> Value {
        let url = format!("http://{}{path}", self.http);
        let text = reqwest::get(&url).await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }
}

/// Returns a workspace without streams, which records what the bot does.
fn options() -> Options {
    Options {
        bot_token: BOT_TOKEN.to_owned(),
        app_token: APP_TOKEN.to_owned(),
        other_app: None,
        people: Vec::new(),
        places: Vec::new(),
        streams: None,
        recorded: 100_000,
        clock: Arc::new(|| SystemClock.now().0),
    }
}

struct NoLog;

impl ports::TurnLog for NoLog {
    fn of(&self, _turn: &str) -> Vec<String> {
        Vec::new()
    }

    fn forget(&self) {}

    fn forget_before(&self, _moment: domain::ids::Timestamp) {}
}

/// Returns a loopback address for one bot, which no other process uses.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = std::process::id().to_be_bytes()[3] | 1;
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, process, high, low)), 18_421)
}
