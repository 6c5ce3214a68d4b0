//! A client without code of this crate: discord.py, in `tests/independent`.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use playground::service::Service;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use crate::support::{DEADLINE, channel, member, options};

/// Timeout of starting an interpreter with its libraries on a loaded machine.
const START: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "only the test runner knows which interpreter to use")]
fn python() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("STAFFAI_TEST_PYTHON").map_or_else(|| root.join(".venv-tests/bin/python"), PathBuf::from)
}

/// A child process; killed when dropped.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(python: PathBuf, service: &Service) -> (Client, mpsc::UnboundedReceiver<String>) {
    let mut child = Command::new(python)
        .arg("tests/independent/client.py")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("DISCORD_API_URL", service.api_url())
        .env("DISCORD_TOKEN", service.token())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (Client(child), lines)
}

async fn line(lines: &mut mpsc::UnboundedReceiver<String>, event: &str) -> Value {
    loop {
        let line = timeout(START, lines.recv()).await.expect("a line in time");
        let line: Value = serde_json::from_str(&line.unwrap_or_else(|| panic!("ended before {event}"))).unwrap();
        assert!(!["error", "failed"].contains(&line["event"].as_str().unwrap()), "{line}");
        if line["event"] == event {
            return line;
        }
    }
}

#[tokio::test]
async fn discord_py_logs_in_answers_is_cut_and_resumes() {
    let python = python();
    assert!(
        python.exists(),
        "{} is missing: python3 -m venv .venv-tests && .venv-tests/bin/pip install -r tests/requirements.txt",
        python.display()
    );
    let service = Service::start(options()).await.unwrap();
    let (general, ada, bot) = (channel(&service, "general"), member(&service, "Ada"), service.bot());
    let (mut client, mut lines) = spawn(python, &service);
    let ready = line(&mut lines, "ready").await;
    assert_eq!(ready["guild"], "Harbour");
    assert_eq!(ready["channels"], json!(["general", "help", "random"]));
    assert_eq!(ready["members"], json!(["ada", "ben", "chloe", "staffai"]));

    let question = service.says(ada, general, &format!("<@{bot}> hello"), None);
    assert_eq!(line(&mut lines, "mentioned").await["author"], "Ada");
    let answered = line(&mut lines, "answered").await;
    assert_eq!(answered["content"], "a better thought");
    assert_eq!(answered["edited"], true);
    assert_eq!(answered["reply_to"], question.to_string());
    assert_eq!(answered["pinged"], json!(["ada"]));
    assert_eq!(answered["history"][0], "a better thought");

    service.faults().cut_gateways();
    timeout(DEADLINE, service.disconnected(0)).await.unwrap();
    service.says(ada, general, &format!("<@{bot}> and again"), None);
    line(&mut lines, "answered_again").await;
    while timeout(START, lines.recv()).await.expect("the end in time").is_some() {}
    assert!(client.0.wait().unwrap().success());

    let messages = service.messages(general);
    let texts: Vec<&str> =
        messages.iter().filter(|message| message.author == bot).map(|message| &*message.content).collect();
    assert_eq!(texts, ["a better thought", "here again"]);
    let stats = service.stats();
    assert_eq!((stats.identifies, stats.resumes, stats.resumes_at_resume_url), (1, 1, 1));
}
