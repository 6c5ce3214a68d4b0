//! An app without code of this project: Slack's own library, in `tests/independent`. It shows that the local service
//! speaks to an app as Slack does.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::service::{APP_TOKEN, BOT, BOT_TOKEN, Service};
use crate::world::story;

/// Timeout of a step, and of starting an interpreter with its libraries on a loaded machine.
const STEP: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "only the test runner knows which interpreter to use")]
fn python() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("STAFFAI_TEST_PYTHON").map_or_else(|| root.join(".venv-tests/bin/python"), PathBuf::from)
}

/// The app; killed when dropped.
struct App(Child, mpsc::UnboundedReceiver<String>);

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl App {
    fn start(service: &Service) -> Self {
        let mut child = Command::new(python())
            .arg("tests/independent/slack_app.py")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("SLACK_API_URL", service.url())
            .env("SLACK_BOT_TOKEN", BOT_TOKEN)
            .env("SLACK_APP_TOKEN", APP_TOKEN)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 -m venv .venv-tests && .venv-tests/bin/pip install -r tests/requirements.txt");
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self(child, lines)
    }

    /// Awaits the line of a step.
    async fn step(&mut self, event: &str) -> Value {
        let line = timeout(STEP, self.1.recv()).await.unwrap_or_else(|_| panic!("no {event} in time"));
        let line: Value = serde_json::from_str(&line.unwrap_or_else(|| panic!("it ended before {event}"))).unwrap();
        assert_eq!(line["event"], event, "{line}");
        line
    }
}

#[test]
fn an_app_of_slacks_own_library_works_in_the_local_workspace() {
    story(async {
        let service = Service::start().await;
        service.streams(Duration::from_secs(300));
        let mut app = App::start(&service);
        assert_eq!(app.step("ready").await["user"], BOT);
        for connection in ["the first connection", "the one after a refresh"] {
            let said = service.says("U1", "C1", "@bot hello");
            let mentioned = app.step("mentioned").await;
            assert_eq!((&mentioned["user"], &mentioned["history"]), (&"U1".into(), &"a better thought".into()));
            assert_eq!(mentioned["metadata"]["n"], 1);
            app.step("streamed").await;
            let answers = service.answers(&said);
            let texts: Vec<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
            assert_eq!(texts, ["a better thought", "one, two, three"], "{connection}");
            assert!(answers[1].streams.is_none());
            service.disconnects("refresh_requested");
            while service.connections().1 < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        service.runs("U1", "C1", "help");
        assert_eq!(app.step("command").await["text"], "help");
        assert_eq!(service.whispers()[0]["text"], "ran help");
        let about = service.says("U2", "C1", "the tide is at noon");
        service.uses_shortcut("U1", &service.message(&about).unwrap());
        assert_eq!(app.step("shortcut").await["text"], "the tide is at noon");
        service.submits("why?");
        let submitted = app.step("submitted").await;
        assert_eq!((&submitted["question"], &submitted["about"]), (&"why?".into(), &about.ts.clone().into()));
        while service.unacknowledged() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let refused = |payload: &Value| payload["errors"]["ask"] == "no answer to why?";
        assert!(service.payloads().iter().any(refused), "{:?}", service.payloads());
        assert!(service.acks().iter().all(|on_its_socket| *on_its_socket), "acknowledged where it was delivered");
    });
}
