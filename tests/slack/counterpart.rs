//! A local Slack of another author: `local-slack` from npm, with its own Web API, Socket Mode and modals.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::process::Process;
use crate::world::{APP_TOKEN, BOT_TOKEN, SOON, World, story};

/// The location where `./test` installs it.
const PROGRAM: &str = ".node-tests/node_modules/local-slack-linux-x64/bin/local-slack";
const CHANNEL: &str = "C01TIDES";
const MEMBER: &str = "U01ADA";
const BOT: &str = "U0BOT";
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Time in which no second answer may come.
const CALM: Duration = Duration::from_secs(1);

/// The other Slack; killed when dropped.
struct OtherSlack {
    child: Child,
    port: u16,
    http: reqwest::Client,
}

impl Drop for OtherSlack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OtherSlack {
    async fn start(world: &World) -> Self {
        let config = json!({
            "apps": [{"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "botUserId": BOT}],
            "users": [{"id": MEMBER, "name": "ada"}],
            "channels": [{"id": CHANNEL, "name": "tides", "members": [MEMBER, BOT]}],
        });
        let file = world.dir().join("slack.json");
        std::fs::write(&file, config.to_string()).unwrap();
        // The program names no port that it chose itself.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let child = Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(PROGRAM))
            .args(["--base-host", "127.0.0.1", "--port", &free.to_string(), "--config"])
            .arg(file)
            .current_dir(world.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{PROGRAM}: {error}; ./test installs it"));
        let other = Self { child, port: free, http: reqwest::Client::new() };
        let deadline = Instant::now() + SOON;
        while other.http.get(other.url("/_control/state")).send().await.is_err() {
            assert!(Instant::now() < deadline, "it does not listen");
            tokio::time::sleep(LOOK).await;
        }
        other
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    async fn does(&self, act: &str, body: &Value) -> Value {
        let answer = self.http.post(self.url(&format!("/_control/{act}"))).json(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{act}: {}", answer.status());
        answer.json().await.unwrap()
    }

    /// Writes a message, and returns its timestamp.
    async fn says(&self, text: &str) -> String {
        let told = self.does("message", &json!({"channel": CHANNEL, "user": MEMBER, "text": text})).await;
        told["message"]["ts"].as_str().unwrap().to_owned()
    }

    /// Returns the bot's messages in a thread.
    async fn answers(&self, thread: &str) -> Vec<Value> {
        let told = self.http.get(self.url(&format!("/_control/messages/{CHANNEL}"))).send().await.unwrap();
        let told: Value = told.json().await.unwrap();
        let all = told["messages"].as_array().unwrap().clone();
        all.into_iter().filter(|one| one["user"] == BOT && one["thread_ts"] == thread).collect()
    }

    /// Awaits the only answer in a thread.
    async fn answer(&self, thread: &str) -> String {
        let deadline = Instant::now() + SOON;
        while self.answers(thread).await.is_empty() {
            assert!(Instant::now() < deadline, "no answer");
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(CALM).await;
        let answers = self.answers(thread).await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0]["text"].as_str().unwrap().to_owned()
    }

    /// Sends a frame as its page does, if there is one, and awaits an open modal for which `fits` is true.
    async fn modal(&self, frame: Option<Value>, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + SOON;
        let mut frame = frame;
        loop {
            // Each new connection begins with the whole state.
            let (mut page, _) = connect_async(format!("ws://127.0.0.1:{}/ui", self.port)).await.unwrap();
            let first = page.next().await.unwrap().unwrap();
            if let Some(frame) = frame.take() {
                page.send(Frame::text(frame.to_string())).await.unwrap();
            }
            let told: Value = serde_json::from_str(first.to_text().unwrap()).unwrap();
            let newest = told["state"]["modalStack"].as_array().and_then(|stack| stack.last().cloned());
            if let Some(view) = newest.filter(&fits) {
                return view;
            }
            assert!(Instant::now() < deadline, "no such modal: {}", told["state"]["modalStack"]);
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[test]
fn a_slack_of_another_author_is_answered_in_threads_and_shows_and_sends_the_settings() {
    story(async {
        let mut world = World::without_bot().await;
        let other = OtherSlack::start(&world).await;
        world.env.insert("SLACK_API_URL".to_owned(), other.url(""));
        let bot = Process::start(world.dir(), "bot", &world.env);
        let deadline = Instant::now() + SOON;
        while world.page("/readyz").await.is_none_or(|ready| ready["status"] != "ready") {
            assert!(Instant::now() < deadline, "it is not ready:\n{}", bot.output());
            tokio::time::sleep(LOOK).await;
        }
        let said = other.says(&format!("<@{BOT}> hello")).await;
        assert_eq!(other.answer(&said).await, "You said: hello");
        other.says("nothing for the bot").await;
        let command = json!({"channel": CHANNEL, "user": MEMBER, "command": "/staffai", "text": "settings"});
        other.does("command", &command).await;
        let has_fields = |view: &Value| view["blocks"].to_string().contains("\"instructions\"");
        other.modal(None, has_fields).await;
        let values = json!({"instructions": {"value": {"type": "plain_text_input", "value": "Say tide."}}});
        let sent = json!({"t": "view_submit", "user": MEMBER, "values": values});
        other.modal(Some(sent), |view| view["blocks"].to_string().contains("Saved: Your instructions")).await;
        let said = other.says(&format!("<@{BOT}> and now?")).await;
        assert!(other.answer(&said).await.ends_with("and now?"));
        assert!(world.model.last().shows("Say tide."), "{:?}", world.model.last().messages);
        assert_eq!(world.model.calls(), 2, "{}", bot.output());
    });
}
