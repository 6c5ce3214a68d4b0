//! The whole bot on a real Redis server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::guild::ids::{ChannelId, MessageId, UserId};
use playground::interactions::Interact;
use playground::service::{Options, Service};
use ports::{Clock, NoFaults};
use serde_json::Value;
use staffai::app::App;
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::server::Server;
use crate::support::{Log, PATIENCE, launch, until};

/// The bot is thinking.
const LOADING: u64 = 1 << 7;

/// A small Discord, a model and the bot.
pub struct World {
    service: Service,
    model: DemoModel,
    app: App,
    dir: TempDir,
    environment: BTreeMap<String, String>,
}

impl World {
    pub async fn start(redis: &str) -> Self {
        Self::start_on(redis, |_| Vec::new()).await
    }

    /// Starts them on a server that is filled before, with more variables.
    pub async fn start_on(redis: &str, fill: impl FnOnce(&Service) -> Vec<(&'static str, String)>) -> Self {
        // Another test of this process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
        let service = Service::start(options).await.unwrap();
        let more = fill(&service);
        let model = DemoModel::start(Duration::ZERO).await.unwrap();
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data").display().to_string();
        let environment = [
            ("DISCORD_BOT_TOKEN", service.token()),
            ("DISCORD_API_URL", &service.api_url()),
            ("LITELLM_API_URL", &model.base_url()),
            ("LITELLM_MODEL", "staffai-demo"),
            ("RESPONSE_CHANCE", "0"),
            ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0"),
            ("REDIS_URL", redis),
            ("STAFFAI_HTTP_ADDR", "127.0.0.1:0"),
            ("STAFFAI_DATA_DIR", &data),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let more = more.into_iter().map(|(name, value)| (name.to_owned(), value));
        let environment: BTreeMap<_, _> = environment.into_iter().chain(more).collect();
        let app = App::start(launch(&environment, Arc::new(NoFaults))).await.unwrap_or_else(|error| panic!("{error}"));
        timeout(PATIENCE, service.connected(0)).await.expect("the bot connects");
        Self { service, model, app, dir, environment }
    }

    /// Stops the bot, and starts it again on the same data directory.
    async fn again(self, meanwhile: impl FnOnce()) -> Self {
        self.app.stop().await;
        meanwhile();
        let app = App::start(launch(&self.environment, Arc::new(NoFaults))).await;
        let app = app.unwrap_or_else(|error| panic!("{error}"));
        timeout(PATIENCE, self.service.connected(0)).await.expect("the bot connects");
        Self { app, ..self }
    }

    fn member(&self, name: &str) -> UserId {
        self.service.members().into_iter().find(|member| member.name == name).unwrap().id
    }

    fn place(&self, name: &str) -> ChannelId {
        self.service.channels().into_iter().find(|channel| channel.name == name).unwrap().id
    }

    /// Mentions the bot as Ada; returns its answer.
    async fn asked(&self, text: &str) -> String {
        self.asked_by("Ada", "general", text).await
    }

    /// Mentions the bot in a channel; returns its answer.
    pub async fn asked_by(&self, who: &str, place: &str, text: &str) -> String {
        let (place, bot) = (self.place(place), self.service.bot());
        let answers = || self.service.messages(place).into_iter().filter(|message| message.author == bot);
        let before = answers().count();
        self.service.says(self.member(who), place, &format!("<@{bot}> {text}"), None);
        until("the bot answers", || answers().count() > before).await;
        // An answer grows at most once per second.
        let mut text = String::new();
        loop {
            let now = answers().nth(before).unwrap().content;
            if now == text {
                return text;
            }
            text = now;
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
    }

    /// Runs a command as a member.
    fn runs(&self, who: &str, name: &str) -> MessageId {
        let deed = Interact::Command(name.to_owned(), Vec::new());
        self.service.interacts(self.member(who), self.place("general"), deed).expect("a known member and channel")
    }

    /// Returns the final answer to a command.
    async fn told(&self, command: MessageId) -> String {
        let shown = || {
            let interaction = self.service.interaction(command)?;
            let shown = self.service.messages(interaction.channel);
            let message = shown.into_iter().find(|message| Some(message.id) == interaction.original)?;
            (message.flags & LOADING == 0).then_some(message.content)
        };
        until("an answer to a command", || shown().is_some()).await;
        shown().unwrap()
    }

    /// Returns the Python bot's key.
    fn key(&self) -> String {
        format!("discord_context:{}:{}", self.member("Ada"), self.place("general"))
    }

    pub async fn stop(self) {
        self.app.stop().await;
        self.service.stop().await;
        self.model.stop().await;
        let files = std::fs::read_dir(self.dir.path().join("data")).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, ["alone.json"], "with a server there is no other file");
    }
}

/// Returns the roles and contents of a stored history, which must have the Python bot's form.
pub fn history(server: &Server, key: &str) -> Vec<(String, String)> {
    let Some(stored) = server.ask::<Option<String>>(&format!("GET {key}")) else { return Vec::new() };
    let entries: Vec<BTreeMap<String, Value>> = serde_json::from_str(&stored).unwrap();
    let entry = |entry: BTreeMap<String, Value>| {
        assert_eq!(entry.keys().collect::<Vec<_>>(), ["content", "role", "timestamp"]);
        assert!(entry["timestamp"].as_f64().unwrap() > 1_700_000_000.0, "seconds since 1970");
        (entry["role"].as_str().unwrap().to_owned(), entry["content"].as_str().unwrap().to_owned())
    };
    entries.into_iter().map(entry).collect()
}

pub fn says(entries: &[(String, String)], text: &str) -> bool {
    entries.iter().any(|(role, content)| role == "user" && content.contains(text))
}

#[tokio::test]
async fn it_answers_while_the_server_is_dead_and_loses_nothing() {
    let log = Log::listen();
    let mut server = Server::start();
    let world = World::start(&server.url()).await;
    let key = world.key();
    world.asked("my name is Ada of the harbour").await;
    until("the history is there", || history(&server, &key).len() == 2).await;
    let told = history(&server, &key);
    assert_eq!((told[0].0.as_str(), told[1].0.as_str()), ("user", "assistant"));
    assert!(says(&told, "my name is Ada of the harbour"), "{told:?}");
    assert!((1..=1_800).contains(&server.ask::<i64>(&format!("TTL {key}"))));
    let remembered = world.asked("what is my name?").await;
    assert!(remembered.contains("Ada of the harbour"), "{remembered}");

    server.kill();
    assert!(!world.asked("the tide is high").await.is_empty());
    assert!(!world.asked("the tide is low").await.is_empty());
    server.restart();
    until("the new words are there", || says(&history(&server, &key), "the tide is low")).await;
    let merged = history(&server, &key);
    for text in ["my name is Ada of the harbour", "the tide is high", "the tide is low"] {
        assert!(says(&merged, text), "{text}: {merged:?}");
    }
    assert!(world.asked("what is my name?").await.contains("Ada of the harbour"));
    until("the store recovers", || log.count("store.recovered") == 1).await;
    log.is_of_one_illness();
    world.stop().await;
}

#[tokio::test]
async fn it_starts_without_the_server_and_takes_it_when_it_comes() {
    let log = Log::listen();
    let mut server = Server::start();
    let world = World::start(&server.url()).await;
    let right = world.dir.path().join("data").join("alone.json");
    until("the bot may start alone", || right.exists()).await;
    let world = world.again(|| server.kill()).await;
    assert!(!world.asked("hello there").await.is_empty(), "its member may have forbidden to remember it");
    assert_eq!((log.count("store.degraded"), log.count("store.recovered")), (1, 0));
    server.restart();
    until("the store recovers", || log.count("store.recovered") == 1).await;
    assert!(!world.asked("hello again").await.is_empty());
    until("the history is there", || says(&history(&server, &world.key()), "hello again")).await;
    log.is_of_one_illness();
    world.stop().await;
}

#[tokio::test]
async fn settings_hold_while_the_server_is_dead_and_unknown_ones_count_as_forbidding() {
    let mut server = Server::start();
    let world = World::start(&server.url()).await;
    let ben = world.member("Ben");
    let () = server.words(&["SET", &format!("staffai:preferences:discord:{ben}"), r#"{"memory":false}"#]);
    world.asked("my name is Ada of the harbour").await;
    until("the history is there", || history(&server, &world.key()).len() == 2).await;
    server.kill();
    world.asked_by("Ben", "general", "my secret is canary-word").await;
    world.asked("the tide is high").await;
    server.restart();
    until("the new words are there", || says(&history(&server, &world.key()), "the tide is high")).await;
    let keys: Vec<String> = server.ask("KEYS *");
    let theirs = |key: &&String| key.contains(":answered:") || key.contains(&format!(":{ben}:"));
    for key in keys.iter().filter(theirs) {
        let stored = server.ask::<Option<String>>(&format!("GET {key}")).unwrap_or_default();
        assert!(!stored.contains("canary-word"), "{key}: {stored}");
    }
    world.stop().await;
}

/// Returns the number of reads of the server from its connections: a pipeline is one read.
fn reads(connection: &mut redis::Connection) -> usize {
    let told: String = redis::cmd("INFO").arg("stats").query(connection).unwrap();
    let reads = told.lines().find_map(|line| line.strip_prefix("total_reads_processed:")).unwrap();
    reads.trim().parse().unwrap()
}

/// Returns the number of reads during a member's turns, and the number of round trips to expect, each after the
/// previous answer and this pause.
async fn reads_of(turns: usize, pause: Duration) -> (usize, usize) {
    let server = Server::start();
    let world = World::start(&server.url()).await;
    let (key, bot, place) = (world.key(), world.service.bot(), world.place("general"));
    let answers = || world.service.messages(place).into_iter().filter(|message| message.author == bot).count();
    let mut connection = server.connection();
    let (mut before, mut since) = (0, Instant::now());
    for turn in 0..=turns {
        world.service.says(world.member("Ada"), place, &format!("<@{bot}> hello {turn}"), None);
        until("the bot answers", || answers() > turn).await;
        if turn == 0 {
            until("it is remembered", || history(&server, &key).len() == 2).await;
            (before, since) = (reads(&mut connection), Instant::now());
        }
        tokio::time::sleep(pause).await;
    }
    let made = reads(&mut connection) - before;
    let seconds = since.elapsed().as_secs() + 1;
    println!("{made} reads of the server for {turns} turns in {seconds} s");
    world.stop().await;
    (made, BESIDES + EACH_SECOND * usize::try_from(seconds).unwrap())
}

/// Reads of the turn before the first counted one, and of the query of the count.
const BESIDES: usize = 5;

/// Reads per second independent of turns: session state of shards, checks of model rows, revoked keys and linked accounts,
/// last turns and samples.
const EACH_SECOND: usize = 5;

/// At its beginning: the record, the reservation and the history. At its end: the records, the settlement and the check
/// of deletions. One more for delayed writes on a slow machine. The closing record goes along with the beginning of the
/// next turn.
#[tokio::test]
async fn a_turn_takes_three_round_trips_at_most() {
    const TURNS: usize = 8;
    let (made, besides) = reads_of(TURNS, Duration::ZERO).await;
    assert!(made <= 3 * TURNS + besides, "{made} for {TURNS} turns, {besides} besides");
}

/// Without a next turn, the closing record is sent alone.
#[tokio::test]
async fn a_turn_takes_three_round_trips_when_nothing_follows_it() {
    const TURNS: usize = 4;
    let (made, besides) = reads_of(TURNS, Duration::from_millis(250)).await;
    assert!(made <= 3 * TURNS + besides, "{made} for {TURNS} turns, {besides} besides");
}

/// The Python bot's history is this bot's history.
#[tokio::test]
async fn it_goes_on_with_the_history_of_the_python_bot() {
    let server = Server::start();
    let world = World::start(&server.url()).await;
    let now = f64::from(u32::try_from(SystemClock.now().0 / 1_000).unwrap());
    let entry =
        |role: &str, content: &str| serde_json::json!({"role": role, "content": content, "timestamp": now - 60.0});
    let stored = Value::from(vec![entry("user", "my name is Grace"), entry("assistant", "Hello Grace")]).to_string();
    let () = server.words(&["SET", &world.key(), &stored, "EX", "1800"]);
    let remembered = world.asked("what is my name?").await;
    assert!(remembered.contains("Grace"), "{remembered}");
    until("both are there", || history(&server, &world.key()).len() == 4).await;
    assert!(says(&history(&server, &world.key()), "my name is Grace"));
    world.stop().await;
}

/// While the server is frozen, a command announces a delayed answer at once, commands without memory are answered, and
/// the others report that the memory does not answer.
#[tokio::test]
async fn commands_are_answered_while_the_server_is_frozen() {
    let server = Server::start();
    let world = World::start(&server.url()).await;
    world.asked("my name is Ada of the harbour").await;
    until("the history is there", || history(&server, &world.key()).len() == 2).await;
    server.freeze();
    let forget = world.runs("Ada", "forget");
    let help = world.runs("Ben", "help");
    until("both are told that an answer will come", || {
        [forget, help].iter().all(|id| world.service.interaction(*id).is_some_and(|known| known.answer == Some(5)))
    })
    .await;
    assert!(world.told(help).await.starts_with("I answer when you mention me"));
    let told = world.told(forget).await;
    assert!(told.contains("**I cannot reach my storage at the moment.**"), "{told}");
    server.thaw();
    until("what is known by name is forgotten there too", || history(&server, &world.key()).is_empty()).await;
    world.stop().await;
}

/// A limit continues from its cached state while the server is down, and is merged back afterwards.
#[tokio::test]
async fn a_limit_holds_while_the_server_is_dead_and_is_merged_back() {
    let log = Log::listen();
    let mut server = Server::start();
    let setup = [("RATE_LIMIT_COUNT", "3"), ("RATE_LIMIT_WINDOW_SECONDS", "600")];
    let setup = setup.map(|(name, value)| (name, value.to_owned())).to_vec();
    let world = World::start_on(&server.url(), |_| setup).await;
    let guild = world.service.guilds()[0].id;
    let keys = [format!("msg_rl:{guild}:{}", world.member("Ada")), format!("token_rl:{guild}:{}", world.member("Ada"))];
    let held = |server: &Server| keys.each_ref().map(|key| server.ask::<usize>(&format!("LLEN {key}")));
    world.asked("one").await;
    world.asked("two").await;
    until("both are settled", || {
        let spent = server.ask::<Vec<String>>(&format!("LRANGE {} 0 -1", keys[1]));
        spent.len() == 2 && spent.iter().all(|entry| entry.split(':').count() == 3)
    })
    .await;

    server.kill();
    world.asked("three").await;
    let refused = world.asked("four").await;
    assert!(refused.contains("limit"), "{refused}");
    server.restart();
    until("the third is told", || held(&server) == [3, 3]).await;
    until("the store recovers", || log.count("store.recovered") == 1).await;
    assert_eq!(log.count("limit.refused"), 1);
    world.stop().await;
}
