//! `staffai migrate`: all data from the embedded store to a server, and back.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::service::{Options, Service};
use ports::Clock;
use rustix::process::Signal;
use serde_json::{Value, json};
use staffai::app::exit;
use staffai::app::system::SystemClock;
use tempfile::TempDir;

use crate::rows::Process;
use crate::server::Server;
use crate::support::{PATIENCE, platform_and_model};

/// A bot in a folder, and a server that it may use.
struct World {
    server: Server,
    service: Service,
    model: DemoModel,
    dir: TempDir,
}

impl World {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
        let service = Service::start(options).await.unwrap();
        let model = DemoModel::start(Duration::ZERO).await.unwrap();
        Self { server: Server::start(), service, model, dir: TempDir::new().unwrap() }
    }

    fn variables(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = platform_and_model(&self.service, &self.model);
        let own = own.into_iter().chain([("STAFFAI_HISTORY__TTL", "1d".to_owned())]);
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        own.map(|(name, value)| (name.to_owned(), value)).chain(more).collect()
    }

    /// Starts the bot and waits until it answers its API.
    async fn start(&self, number: u8, more: &[(&str, &str)]) -> Process {
        let variables = self.variables(more);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let bot = Process::start(self.dir.path(), number, &variables);
        let ready = async {
            loop {
                if let Ok(answer) = reqwest::get(format!("http://{}/readyz", bot.address)).await
                    && answer.json::<Value>().await.is_ok_and(|told| told["status"] == "ready")
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("the bot is ready");
        bot
    }

    async fn asks(&self, bot: &Process, text: &str) {
        let body = json!({"session": "main", "text": text, "wait": true});
        let asked = reqwest::Client::new().post(format!("http://{}/api/v1/submit", bot.address)).json(&body);
        assert!(asked.send().await.unwrap().status().is_success(), "{text}");
    }

    fn runs(&self, words: &[&str], more: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.args(words).env_clear().envs(self.variables(more)).env("STAFFAI_HTTP_ADDR", "127.0.0.1:9");
        command.current_dir(self.dir.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn told(&self, words: &[&str], more: &[(&str, &str)]) -> (Option<i32>, String) {
        let done = self.runs(words, more);
        let text = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (done.status.code(), text)
    }

    /// Returns the lasting keys of a store with their values.
    fn rows(&self, more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let copy = self.runs(&["backup", "-"], more);
        assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
        let lines = std::str::from_utf8(&copy.stdout).unwrap().lines().map(|line| line.parse::<Value>().unwrap());
        let rows =
            lines.filter_map(|line| Some((line["key"].as_str()?.to_owned(), line["value"].as_str()?.to_owned())));
        let short = ["msg_rl:", "token_rl:", "staffai:process:"];
        rows.filter(|(key, _)| !short.iter().any(|prefix| key.starts_with(prefix))).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_data_moves_to_a_server_and_back() {
    let world = World::new().await;
    let url = world.server.url();
    let (here, there) = ([], [("REDIS_URL", url.as_str())]);
    let mut bot = world.start(11, &here).await;
    world.asks(&bot, "what is 2 + 2").await;
    let (code, told) = world.told(&["migrate"], &there);
    assert!(code == Some(i32::from(exit::IN_USE)) && told.contains("in use by another process"), "{told}");
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await, Some(0));

    let (code, told) = world.told(&["migrate"], &here);
    assert!(code == Some(i32::from(exit::USAGE)) && told.contains("set REDIS_URL"), "{told}");
    let before = world.rows(&here);
    assert!(before.keys().any(|key| key.starts_with("discord_context:")), "{before:?}");
    let (code, told) = world.told(&["migrate"], &there);
    assert!(code == Some(0) && told.contains("start the bot with the same REDIS_URL"), "{told}");
    assert_eq!(world.rows(&there), before);
    assert_eq!(world.rows(&here), before, "the source stays");
    let (code, told) = world.told(&["migrate"], &there);
    assert!(code == Some(1) && told.contains("both stores have data"), "{told}");

    let mut bot = world.start(12, &there).await;
    world.asks(&bot, "and 3 + 3").await;
    let other = [("REDIS_URL", url.as_str()), ("STAFFAI_DATA_DIR", "other")];
    let (code, told) = world.told(&["migrate"], &other);
    assert!(code == Some(i32::from(exit::IN_USE)) && told.contains("is active on this server"), "{told}");
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await, Some(0));
    let after = world.rows(&there);
    assert_ne!(after, before);
    let (code, told) = world.told(&["migrate", "embedded"], &other);
    assert!(code == Some(0) && told.contains("start the bot without REDIS_URL"), "{told}");
    assert_eq!(world.rows(&other[1..]), after);
    let left = std::fs::read_dir(world.dir.path().join("other")).unwrap();
    assert!(left.flatten().all(|file| !file.file_name().to_string_lossy().contains("migration")));
    let (code, told) = world.told(&["migrate", "embedded"], &other);
    assert!(code == Some(1) && told.contains("is not empty"), "{told}");
}
