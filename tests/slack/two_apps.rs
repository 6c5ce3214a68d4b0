//! Another app in the same workspace: `slack_bolt`, a client without code of this repository.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::world::{World, story};

const OTHER_BOT: &str = "xoxb-of-the-other";
const OTHER_APP: &str = "xapp-of-the-other";
/// Timeout of a line, with the start of an interpreter on a loaded machine.
const LINE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "only the test runner knows which interpreter to use")]
fn python() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("STAFFAI_TEST_PYTHON").map_or_else(|| root.join(".venv-tests/bin/python"), PathBuf::from)
}

/// The other app; killed when dropped.
struct OtherApp {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Drop for OtherApp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OtherApp {
    fn start(world: &World) -> Self {
        let mut child = Command::new(python())
            .arg("tests/independent/slack_app.py")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("SLACK_API_URL", world.service.url())
            .env("OTHER_BOT_TOKEN", OTHER_BOT)
            .env("OTHER_APP_TOKEN", OTHER_APP)
            .stdout(Stdio::piped())
            .spawn()
            .expect(
                "an interpreter: python3 -m venv .venv-tests && .venv-tests/bin/pip install -r tests/requirements.txt",
            );
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Awaits an event for which `fits` is true.
    async fn hears(&mut self, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = timeout(LINE, self.lines.recv()).await.expect("a line in time").expect("it runs");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["event"] == event && fits(&line) {
                return line;
            }
        }
    }
}

#[test]
fn two_apps_hear_a_message_and_only_the_mentioned_one_answers_and_no_bot_answers_a_bot() {
    story(async {
        let world = World::with_other_app(OTHER_BOT, OTHER_APP).await;
        let mut other = OtherApp::start(&world);
        assert_eq!(other.hears("ready", |_| true).await["user"], "UOTHER");
        world.start().await;
        world.until("all connections", || (world.service.connections().0 >= 3).then_some(())).await;
        // Both hear it; only the bot is mentioned.
        let said = world.service.says("U1", "C1", "@bot hello");
        assert_eq!(world.only_answer_to(&said).await.text, "You said: hello");
        other.hears("posted", |line| line["user"] == "U1").await;
        other.hears("posted", |line| line["user"] == "UBOT" && line["bot"] == "BBOT").await;
        assert!(world.service.spoken_by_other().is_empty());
        // Only the other app is mentioned. Its answer mentions the bot, and is that of a bot.
        let there = world.service.says("U1", "C1", "<@UOTHER> what is the tide?");
        other.hears("mentioned", |line| line["text"] == "<@UOTHER> what is the tide?").await;
        let answered = world.until("its answer", || world.service.spoken_by_other().into_iter().next()).await;
        assert!(answered.text.contains("<@UBOT>") && answered.thread.as_deref() == Some(there.ts.as_str()));
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        // What the bot does with it is done before it answers the next member.
        let later = world.service.says("U1", "C1", "@bot and now?");
        world.only_answer_to(&later).await;
        assert!(world.service.answers(&there).is_empty(), "{:?}", world.service.answers(&there));
        assert_eq!((world.model.calls(), world.service.spoken_by_other().len()), (2, 1));
    });
}
