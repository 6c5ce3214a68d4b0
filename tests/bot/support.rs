//! A world with members, channels and the bot, in which a test reads like a chat.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use documents::process::DocumentReader;
use domain::ids::Timestamp;
use parking_lot::Mutex;
use playground::guild::files::File;
use playground::guild::ids::{ChannelId, MessageId, UserId};
use playground::guild::{Member, Message};
use playground::limits::Budgets;
use playground::service::{Options, Service};
use ports::{Clock, Dice, Faults, NoFaults, TurnLog};
use serde_json::Value;
use settings::Settings;
use settings::sources::Sources;
use staffai::app::assemble::Launch;
use staffai::app::configured::{Configured, Lookup};
use staffai::app::system::{SystemClock, SystemDice};
use staffai::app::{App, Ended};
use telemetry::{self, Redaction};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::model::Model;
use crate::process::Process;

/// Timeout of a story.
const STORY: Duration = Duration::from_secs(120);
/// Timeout of a message.
pub const SOON: Duration = Duration::from_secs(30);
/// Time in which a channel is checked for a second answer that must not come.
const CALM: Duration = Duration::from_millis(150);

/// No facts about the scripted model.
const MODELS: &str = r#"{"models": {}}"#;

/// Runs one story on its own runtime, with the timeout [`STORY`].
pub fn story(told: impl Future<Output = ()>) {
    story_within(STORY, told);
}

/// Runs one story on its own runtime, with this timeout.
pub fn story_within(most: Duration, told: impl Future<Output = ()>) {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    show_log();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let begun = Instant::now();
    let ended = runtime.block_on(async { tokio::time::timeout(most, told).await });
    runtime.shutdown_timeout(Duration::from_secs(1));
    println!("took {:?}", begun.elapsed());
    assert!(ended.is_ok(), "the story took longer than {most:?}");
}

/// Shows the log of the bots in this process if `BOT_LOG` is set, for example to `debug`.
#[expect(clippy::disallowed_methods, reason = "a person who runs the tests asks for it")]
fn show_log() {
    if let Ok(filter) = std::env::var("BOT_LOG") {
        // Another story may have set it up.
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).try_init();
    }
}

/// The options of a world; the defaults are fast and simple.
pub struct Setup {
    pub env: BTreeMap<String, String>,
    pub service: Options,
    pub faults: Arc<dyn Faults>,
    pub dice: Arc<dyn Dice>,
    pub clock: Arc<dyn Clock>,
}

impl Setup {
    pub fn new() -> Self {
        let many = (100_000, Duration::from_secs(1));
        let budgets =
            Budgets { writes: many, reads: many, deletes: many, typing: many, roles: many, others: many, global: many };
        let service = Options {
            identify_period: Duration::ZERO,
            session_starts: 1_000,
            budgets,
            ..Options::new(Arc::new(|| SystemClock.now().0))
        };
        // Chloe, who owns the guilds of the seed.
        let operator = service.seed.guilds[0].owner.to_string();
        let env = [
            ("STAFFAI_DISCORD__OPERATORS", operator.as_str()),
            ("LITELLM_MODEL", "scripted"),
            ("STAFFAI_LLM__TIMEOUT", "2s"),
            ("STAFFAI_TURN__DEADLINE", "5s"),
            ("STAFFAI_DRAIN_SECONDS", "5"),
            ("DISCORD_REQUESTS_PER_SECOND", "0"),
            // Off, except in stories about interjections.
            ("RESPONSE_CHANCE", "0"),
            ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0"),
            // High, since many stories have one member who asks a lot.
            ("RATE_LIMIT_COUNT", "1000"),
            ("TOKEN_RATE_LIMIT_COUNT", "1000000000"),
            ("LOG_FORMAT", "json"),
        ];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { env, service, faults: Arc::new(NoFaults), dice: Arc::new(SystemDice), clock: Arc::new(SystemClock) }
    }

    /// Sets an environment variable.
    pub fn set(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.env.insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets internal failures.
    pub fn faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.faults = faults;
        self
    }

    pub fn dice(mut self, dice: Arc<dyn Dice>) -> Self {
        self.dice = dice;
        self
    }

    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Uses Discord's own rate limits instead of none.
    pub fn real_budgets(mut self) -> Self {
        self.service.budgets = Budgets::default();
        self.env.remove("DISCORD_REQUESTS_PER_SECOND");
        self
    }
}

/// A log with one line per turn, which drops nothing.
struct OneLine;

impl TurnLog for OneLine {
    fn of(&self, turn: &str) -> Vec<String> {
        vec![format!("a line of {turn}")]
    }

    fn forget(&self) {}

    fn forget_before(&self, _moment: Timestamp) {}
}

/// A message of a member.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub id: MessageId,
    pub channel: ChannelId,
}

/// The service, the model, the bot, and the members.
pub struct World {
    pub service: Service,
    pub model: Model,
    pub dir: TempDir,
    pub http: SocketAddr,
    env: BTreeMap<String, String>,
    faults: Arc<dyn Faults>,
    dice: Arc<dyn Dice>,
    clock: Arc<dyn Clock>,
    bot: Mutex<Option<Bot>>,
    heard: Mutex<HashMap<ChannelId, usize>>,
}

/// The bot in this process.
struct Bot {
    told: Option<oneshot::Sender<How>>,
    task: JoinHandle<(Ended, bool)>,
}

#[derive(Clone, Copy)]
enum How {
    Drain,
    Stop,
}

impl World {
    /// Starts a world whose bot is connected.
    pub async fn begin() -> Self {
        Self::with(Setup::new()).await
    }

    /// The same with options.
    pub async fn with(setup: Setup) -> Self {
        let world = Self::without_bot(setup).await;
        world.start().await;
        world
    }

    /// A bot whose only model row has these fields.
    pub async fn of_row(setup: Setup, fields: &str) -> Self {
        let world = Self::without_bot(setup).await;
        let models = format!(r#"{{"models": {{"scripted": {{"model_id": "scripted", "enabled": true, {fields}}}}}}}"#);
        std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
        world.start().await;
        world
    }

    /// Starts a world without a running bot.
    pub async fn without_bot(setup: Setup) -> Self {
        let Setup { mut env, service, faults, dice, clock } = setup;
        let service = Service::start(service).await.unwrap();
        let model = Model::start().await;
        let dir = tempfile::tempdir().unwrap();
        let http = own_address();
        let models = dir.path().join("scripted-models.json");
        std::fs::write(&models, MODELS).unwrap();
        let data = dir.path().join("data").display().to_string();
        let given = [
            ("DISCORD_BOT_TOKEN", service.token().to_owned()),
            ("DISCORD_API_URL", service.api_url()),
            ("LITELLM_API_URL", model.url().to_owned()),
            ("STAFFAI_HTTP_ADDR", http.to_string()),
            ("STAFFAI_DATA_DIR", data),
            ("STAFFAI_MODELS", models.display().to_string()),
        ];
        for (name, value) in given {
            env.entry(name.to_owned()).or_insert(value);
        }
        let (bot, heard) = (Mutex::new(None), Mutex::default());
        Self { service, model, dir, http, env, faults, dice, clock, bot, heard }
    }

    // === The bot ===

    /// Starts the bot in this process and waits until it is connected.
    pub async fn start(&self) {
        self.launch().await;
        let connected = tokio::time::timeout(SOON, self.service.connected(0)).await;
        assert!(connected.is_ok(), "the bot did not connect");
    }

    /// Starts the bot in this process.
    pub async fn launch(&self) {
        let lookup: Lookup = Arc::new(|_| None);
        let launch = Launch {
            configured: Configured { settings: settings_of(&self.env), lookup, redaction: Redaction::default() },
            reread: None,
            alone: false,
            clock: Arc::clone(&self.clock),
            dice: Arc::clone(&self.dice),
            documents: Arc::new(DocumentReader::at(env!("CARGO_BIN_EXE_staffai"))),
            faults: Arc::clone(&self.faults),
            observers: Vec::new(),
            metrics: metrics(),
            tally: Arc::default(),
            logged: Arc::new(OneLine),
            stop: CancellationToken::new(),
        };
        let mut app = App::start(launch).await.unwrap_or_else(|error| panic!("{error}"));
        let (told, telling) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut how = How::Stop;
            let told = async { how = telling.await.unwrap_or(How::Stop) };
            let ended = app.serve(told).await;
            let finished = match (&ended, how) {
                (Ended::StopRequested, How::Drain) => app.drain().await,
                (Ended::StopRequested | Ended::Refused(_) | Ended::Superseded(_), _) => {
                    app.stop().await;
                    false
                }
                (Ended::GaveUp, _) => false,
            };
            (ended, finished)
        });
        *self.bot.lock() = Some(Bot { told: Some(told), task });
    }

    /// Stops the bot without waiting for turns in flight.
    pub async fn stop(&self) {
        assert_eq!(self.end(How::Stop).await.0, Ended::StopRequested);
    }

    /// Drains the bot. Returns true if nothing was left.
    pub async fn drain(&self) -> bool {
        let (ended, finished) = self.end(How::Drain).await;
        assert_eq!(ended, Ended::StopRequested);
        finished
    }

    /// Waits until the bot ends by itself.
    pub async fn ends(&self) -> Ended {
        let bot = self.bot.lock().take().expect("the bot runs");
        tokio::time::timeout(SOON, bot.task).await.expect("the bot ends soon").expect("no panic").0
    }

    async fn end(&self, how: How) -> (Ended, bool) {
        let mut bot = self.bot.lock().take().expect("the bot runs");
        let _ = bot.told.take().map(|told| told.send(how));
        tokio::time::timeout(SOON, bot.task).await.expect("the bot ends soon").expect("no panic")
    }

    /// Starts the bot as a process of its own and waits until it is connected.
    pub async fn process(&self, name: &str) -> Process {
        self.connects(self.spawn(name)).await
    }

    /// The same by a script that sets limits; see [`Process::under`].
    pub async fn process_under(&self, name: &str, script: &str) -> Process {
        self.connects(Process::under(self.dir.path(), name, &self.env, script)).await
    }

    async fn connects(&self, process: Process) -> Process {
        let connected = tokio::time::timeout(SOON, self.service.connected(0)).await;
        assert!(connected.is_ok(), "the process did not connect:\n{}", process.output());
        process
    }

    /// Starts the bot as a process of its own.
    pub fn spawn(&self, name: &str) -> Process {
        Process::start(self.dir.path(), name, &self.env)
    }

    /// The same with other variables; an empty value removes one.
    pub fn spawn_with(&self, name: &str, changes: &[(&str, &str)]) -> Process {
        Process::start(self.dir.path(), name, &self.variables(changes))
    }

    /// Returns the variables of the bot with these changes; an empty value removes one.
    pub fn variables(&self, changes: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        for (name, value) in changes {
            if value.is_empty() {
                env.remove(*name);
            } else {
                env.insert((*name).to_owned(), (*value).to_owned());
            }
        }
        env
    }

    // === Members ===

    pub fn channel(&self, name: &str) -> ChannelId {
        self.service.channels().iter().find(|channel| channel.name == name).expect("a channel").id
    }

    pub fn member(&self, name: &str) -> UserId {
        self.service.members().iter().find(|member| member.name == name).expect("a member").id
    }

    /// Adds members named `member-0` and so on.
    pub fn crowd(&self, many: u64) {
        let guild = self.service.guilds()[0].id;
        for number in 0..many {
            let id = UserId(800_000_000_000_000_000 + number);
            self.join(guild, Member { id, name: format!("member-{number}"), roles: Vec::new(), bot: false });
        }
    }

    pub fn join(&self, guild: playground::guild::ids::GuildId, member: Member) {
        assert!(self.service.put_member(guild, member));
    }

    // === The chat ===

    /// Writes as a member; `@Name` mentions.
    pub fn says(&self, who: &str, channel: &str, text: &str) -> Said {
        self.writes(who, self.channel(channel), text, None)
    }

    /// Writes as a member, with files.
    pub fn sends(&self, who: &str, channel: &str, text: &str, files: &[(&str, &str, &[u8])]) -> Said {
        let files = files.iter().map(|(name, kind, bytes)| File {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            bytes: bytes.to_vec().into(),
            description: None,
        });
        let (author, channel) = (self.member(who), self.channel(channel));
        let text = text.replace("@staffai", &format!("<@{}>", self.service.bot()));
        let sent = self.service.sends(author, channel, &text, None, files.collect());
        Said { id: sent.expect("the channel exists").id, channel }
    }

    /// Replies to a message.
    pub fn replies(&self, who: &str, to: impl Into<Said>, text: &str) -> Said {
        let to = to.into();
        self.writes(who, to.channel, text, Some(to.id))
    }

    /// Writes to any channel.
    pub fn writes(&self, who: &str, channel: ChannelId, text: &str, reply_to: Option<MessageId>) -> Said {
        let members = self.service.members();
        let author = members.iter().find(|member| member.name == who).expect("a member").id;
        let mut text = text.to_owned();
        if text.contains('@') {
            for member in &members {
                text = text.replace(&format!("@{}", member.name), &format!("<@{}>", member.id));
            }
        }
        let id = self.service.says(author, channel, &text, reply_to);
        assert_ne!(id, MessageId(0), "the channel exists");
        Said { id, channel }
    }

    /// Returns the bot's next message in a channel.
    pub async fn hears(&self, channel: &str) -> Message {
        let channel = self.channel(channel);
        let message = self
            .until("the bot says something", || {
                let at = *self.heard.lock().get(&channel).unwrap_or(&0);
                self.spoken(channel).into_iter().nth(at)
            })
            .await;
        *self.heard.lock().entry(channel).or_default() += 1;
        message
    }

    /// Returns the bot's messages in a channel.
    pub fn spoken(&self, channel: ChannelId) -> Vec<Message> {
        let bot = self.service.bot();
        self.service.messages(channel).into_iter().filter(|message| message.author == bot).collect()
    }

    /// Returns the bot's replies to a message so far.
    pub fn answers(&self, said: Said) -> Vec<Message> {
        self.spoken(said.channel).into_iter().filter(|message| message.reply_to == Some(said.id)).collect()
    }

    /// Awaits the only reply to a message.
    pub async fn answer_to(&self, said: Said) -> Message {
        self.until("an answer", || self.answers(said).into_iter().next()).await
    }

    /// Awaits the text of the only reply to a message.
    pub async fn words_to(&self, said: Said) -> String {
        self.answer_to(said).await.content
    }

    /// Checks that each of these is answered exactly once.
    pub async fn all_answered(&self, said: &[Said], within: Duration) {
        let deadline = Instant::now() + within;
        loop {
            let replies = self.replies_by_trigger();
            let open = said.iter().filter(|said| !replies.contains_key(&said.id)).count();
            if open == 0 {
                break;
            }
            self.check_alive();
            assert!(
                Instant::now() < deadline,
                "{open} of {} were not answered within {within:?}; {} model calls; {:?}",
                said.len(),
                self.model.calls(),
                self.service.stats()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(CALM).await;
        self.check_once();
    }

    /// Checks that this message gets no answer, while a later one does.
    pub async fn ignores(&self, said: Said) {
        let later = self.says("Chloe", "random", "@staffai still there?");
        self.answer_to(later).await;
        tokio::time::sleep(CALM).await;
        assert_eq!(self.answers(said), [], "it should not have been answered");
    }

    /// Waits until `look` returns a value, while the bot runs.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        let mut changes = self.service.subscribe();
        loop {
            if let Some(found) = look() {
                return found;
            }
            self.check_alive();
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            // Not every awaited change is in the chat.
            let _ = tokio::time::timeout(Duration::from_millis(20), changes.recv()).await;
        }
    }

    // === The operators' view ===

    /// Returns the address of the bot's HTTP service.
    pub fn http(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Requests a page of the bot; returns status and body.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.http);
        let deadline = Instant::now() + SOON;
        loop {
            match reqwest::get(&url).await {
                Ok(answer) => return (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
                Err(error) => assert!(Instant::now() < deadline, "{url}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until `told` accepts a page of the bot, parsed as JSON.
    pub async fn until_told<T>(&self, path: &str, told: impl Fn(&Value) -> Option<T>) -> T {
        self.until_page(path, |page| serde_json::from_str(page).ok().and_then(|page| told(&page))).await
    }

    /// Waits until `told` accepts a page of the bot.
    pub async fn until_page<T>(&self, path: &str, told: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            let page = self.get(path).await.1;
            if let Some(found) = told(&page) {
                return found;
            }
            assert!(Instant::now() < deadline, "{path} does not tell it: {page}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The same, parsed as JSON.
    pub async fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.get(path).await;
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}")))
    }

    /// Waits until `/readyz` has this status.
    pub async fn becomes(&self, status: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(25);
        loop {
            let (_, body) = self.json("/readyz").await;
            if body["status"] == status {
                return body;
            }
            assert!(Instant::now() < deadline, "never {status}: {body}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the restarts of each actor, by path, without conversations.
    pub async fn restarts(&self) -> BTreeMap<String, u64> {
        let (_, tree) = self.json("/api/v1/tree").await;
        let mut restarts = BTreeMap::new();
        collect(&tree, &mut restarts);
        restarts
    }

    // === Invariants ===

    fn replies_by_trigger(&self) -> HashMap<MessageId, usize> {
        let bot = self.service.bot();
        let mut replies = HashMap::new();
        for channel in self.service.channels() {
            for message in self.service.messages(channel.id) {
                if let (true, Some(trigger)) = (message.author == bot, message.reply_to) {
                    *replies.entry(trigger).or_default() += 1;
                }
            }
        }
        replies
    }

    fn check_once(&self) {
        let doubled = self.replies_by_trigger().into_iter().filter(|(_, many)| *many > 1);
        let channels = self.service.channels();
        let answers = |trigger| {
            let messages = channels.iter().flat_map(|channel| self.service.messages(channel.id));
            messages.filter(|message| message.reply_to == Some(trigger)).map(|message| message.content).collect()
        };
        let doubled: Vec<(MessageId, Vec<String>)> = doubled.map(|(trigger, _)| (trigger, answers(trigger))).collect();
        assert!(doubled.is_empty(), "answered more than once: {doubled:?}");
    }

    fn check_alive(&self) {
        let over = self.bot.lock().as_ref().is_some_and(|bot| bot.task.is_finished());
        assert!(!over, "the tree died");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_alive();
            self.check_once();
        }
    }
}

impl From<&Message> for Said {
    fn from(message: &Message) -> Self {
        Self { id: message.id, channel: message.channel }
    }
}

impl From<&Said> for Said {
    fn from(said: &Said) -> Self {
        *said
    }
}

/// Returns the settings for these variables, from memory. Files and folders that they name must be in the maps; the bot
/// reads its files from disk.
pub fn settings_of(env: &BTreeMap<String, String>) -> Settings {
    let named = ["STAFFAI_PROMPTS_DIR", "STAFFAI_MODELS"].iter().filter_map(|name| env.get(*name));
    let files = named.map(|path| (std::path::PathBuf::from(path), String::new())).collect();
    let loaded = settings::load(&Sources::from_maps(env.clone(), files));
    loaded.unwrap_or_else(|problems| panic!("{problems:?}")).settings
}

fn collect(node: &Value, restarts: &mut BTreeMap<String, u64>) {
    let path = node["path"].as_str().unwrap_or_default().to_owned();
    restarts.insert(path, node["restarts"].as_u64().unwrap_or_default());
    for child in node["children"].as_array().into_iter().flatten() {
        collect(child, restarts);
    }
}

/// The metrics of this process, which all stories share.
fn metrics() -> Arc<dyn Fn() -> String + Send + Sync> {
    type Page = Arc<dyn Fn() -> String + Send + Sync>;
    static PAGE: OnceLock<Page> = OnceLock::new();
    Arc::clone(PAGE.get_or_init(|| {
        let metrics = telemetry::metrics::install().unwrap();
        Arc::new(move || metrics.render())
    }))
}

/// Returns a loopback address for one bot: no port is guessed, and no other connection can use it.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = std::process::id().to_be_bytes()[3] | 1;
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, process, high, low)), 18_420)
}
