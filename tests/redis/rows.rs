//! Model rows that are changed at run time, and outlive the process.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::service::{Options, Service};
use ports::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::server::Server;

/// Timeout of a start, and of a change to take effect everywhere.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running `staffai run`; killed when dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Returns the address of the pages of the process with this number.
    pub fn address_of(number: u8) -> SocketAddr {
        let [.., low] = std::process::id().to_be_bytes();
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 77, low, number)), 18_430)
    }

    /// Starts the program in a folder of its own.
    pub fn start(dir: &Path, number: u8, variables: &[(&str, impl AsRef<OsStr>)]) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let address = Self::address_of(number);
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
        let variables = variables.iter().map(|(name, value)| (*name, value));
        command.arg("run").env_clear().envs(variables).env("STAFFAI_HTTP_ADDR", address.to_string());
        command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self { child: command.spawn().unwrap(), address }
    }

    /// Sends a signal to it.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// True if it ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end, and returns its exit code; `None` if a signal ended it.
    pub async fn ended(&mut self) -> Option<i32> {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "{}: it does not end", self.address);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a line to a session of this process.
    async fn runs(&self, line: String) {
        let body = json!({"session": "console", "text": line, "wait": true});
        let request = reqwest::Client::new().post(format!("http://{}/api/v1/submit", self.address)).json(&body);
        let answer = request.send().await.unwrap();
        let (status, told) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{line}: {told}");
    }

    /// Returns the rows with their timeouts in seconds, by key; `None` while the process does not answer.
    async fn timeouts(&self) -> Option<Vec<(String, u64)>> {
        let answer = reqwest::get(format!("http://{}/api/v1/models", self.address)).await.ok()?;
        let told: Value = answer.json().await.ok()?;
        let row = |row: &Value| Some((row["key"].as_str()?.to_owned(), row["timeout_s"].as_u64()?));
        let mut rows: Vec<_> = told["models"].as_array()?.iter().filter_map(row).collect();
        rows.sort();
        Some(rows)
    }

    async fn becomes(&self, one: u64, two: u64) {
        let expected = [("one".to_owned(), one), ("two".to_owned(), two)];
        let until = Instant::now() + TIMEOUT;
        loop {
            let rows = self.timeouts().await;
            if rows.as_deref() == Some(&expected) {
                return;
            }
            assert!(Instant::now() < until, "{}: {rows:?} does not become {expected:?}", self.address);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn changed_rows_hold_in_the_process_that_takes_over() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (server, dir) = (Server::start(), TempDir::new().unwrap());
    let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
    let service = Service::start(options).await.unwrap();
    let model = DemoModel::start(Duration::ZERO).await.unwrap();
    let row = json!({"model_id": "staffai-demo", "enabled": true, "llm_call_timeout": 30});
    let models = dir.path().join("models.json");
    std::fs::write(&models, json!({"models": {"one": row, "two": row}}).to_string()).unwrap();
    let (models, base) = (models.display().to_string(), model.base_url());
    let (url, discord) = (server.url(), service.api_url());
    let variables = [
        ("DISCORD_BOT_TOKEN", service.token()),
        ("DISCORD_API_URL", discord.as_str()),
        ("LITELLM_API_URL", base.as_str()),
        ("LITELLM_MODEL", "one"),
        ("STAFFAI_MODELS", models.as_str()),
        ("RESPONSE_CHANCE", "0"),
        ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0"),
        ("REDIS_URL", url.as_str()),
    ];
    let mut first = Process::start(&dir.path().join("first"), 1, &variables);
    first.becomes(30, 30).await;
    let second = Process::start(&dir.path().join("second"), 2, &variables);
    first.runs("!llm_timeout one 40".to_owned()).await;
    first.runs("!llm_timeout two 50".to_owned()).await;
    first.becomes(40, 50).await;
    first.signal(Signal::TERM);
    assert_eq!(first.ended().await, Some(0));
    second.becomes(40, 50).await;
    second.runs("!llm_timeout one 41".to_owned()).await;
    second.becomes(41, 50).await;
    drop((first, second));
    service.stop().await;
    model.stop().await;
}
