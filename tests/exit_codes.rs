//! The ends of `staffai run` as a service manager sees them: exit code and last output.

#[path = "exit_codes/keeping.rs"]
mod keeping;
#[path = "exit_codes/rolls.rs"]
mod rolls;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use std::time::Duration;

use playground::service::{Options, Service};
use staffai::app::exit;
use staffai::app::system::SystemClock;
use store::Backend;
use store::embedded::FILE;
use store::embedded::opener::Opener;

/// The time of all tests here, in milliseconds since 1970.
const NOW: u64 = 1_790_000_000_000;
/// Ten times the duration of the slowest run; a program that hangs is killed.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn discord(change: impl FnOnce(&mut Options)) -> Service {
    let mut options = Options::new(Arc::new(|| NOW));
    change(&mut options);
    Service::start(options).await.unwrap()
}

fn run(folder: &Path, service: &Service) -> Command {
    program("run", folder, service)
}

fn program(argument: &str, folder: &Path, service: &Service) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command
        .arg(argument)
        .env_clear()
        .current_dir(folder)
        .env("DISCORD_API_URL", service.api_url())
        .env("DISCORD_BOT_TOKEN", service.token())
        .env("LITELLM_API_URL", "http://127.0.0.1:1")
        .env("LITELLM_MODEL", "demo")
        .env("RESPONSE_CHANCE", "0")
        .env("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0")
        .env("STAFFAI_HTTP_ADDR", "127.0.0.1:0");
    command
}

/// Returns the exit code and all output.
async fn end_of(mut command: Command) -> (i32, String) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    let child = command.spawn().unwrap();
    let killer = child.id();
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Ok(output) = tokio::time::timeout(TIMEOUT, waiting).await else {
        let _ = Command::new("kill").args(["-KILL", &killer.to_string()]).status();
        panic!("still running after {TIMEOUT:?}");
    };
    let output = output.unwrap().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code().unwrap_or(-1), text)
}

#[track_caller]
fn ended((code, text): (i32, String), expected: u8, words: &str) {
    assert!(
        code == i32::from(expected) && text.contains(words),
        "code {code}, expected {expected} and {words}\n{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_token_is_a_matter_of_configuration() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let mut command = run(folder.path(), &service);
    command.env_remove("DISCORD_BOT_TOKEN");
    ended(end_of(command).await, exit::USAGE, "staffai playground");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_refused_for_good() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let mut command = run(folder.path(), &service);
    command.env("DISCORD_BOT_TOKEN", "another-bots-token");
    let ending = end_of(command).await;
    assert!(!ending.1.contains("another-bots-token"), "{}", ending.1);
    ended(ending, exit::REFUSED, "set DISCORD_BOT_TOKEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_intent_is_refused_for_good() {
    let (service, folder) = (discord(|options| options.privileged = 0).await, tempfile::tempdir().unwrap());
    ended(end_of(run(folder.path(), &service)).await, exit::REFUSED, "the message content intent is off");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_has_one_process() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let held = Opener::new(folder.path().join("data"), Arc::new(SystemClock)).open().unwrap();
    ended(end_of(run(folder.path(), &service)).await, exit::IN_USE, "is in use by another process");
    // Nothing listens at this address, so the process that holds the directory is not this service.
    let mut check = program("check", folder.path(), &service);
    check.env("STAFFAI_HTTP_ADDR", "127.0.0.1:1");
    ended(end_of(check).await, exit::NEGATIVE, "is in use by another process");
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_is_a_matter_of_configuration() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("staffai.toml"), "[turn]\ndeadlin = \"5s\"\n").unwrap();
    ended(end_of(run(folder.path(), &service)).await, exit::USAGE, "turn.deadlin");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_mistakes_of_a_run_are_told_at_once() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("prompts")).unwrap();
    for (file, text) in [
        ("prompts/personality_prompt.txt", " "),
        ("response_schema.json", "{"),
        ("models.json", r#"{"models": {"demo": {"env_key": "GONE"}}}"#),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let mut command = run(folder.path(), &service);
    command.env_remove("DISCORD_BOT_TOKEN").env("RATE_LIMIT_COUNT", "many").env("STAFFAI_MODELS", "models.json");
    command.env("LOG_LEVEL", "info,staffai=loud").env("LITELLM_API_URL", "http://me:hunter2@127.0.0.1:1");
    let (code, text) = end_of(command).await;
    assert_eq!(code, i32::from(exit::USAGE), "{text}");
    for words in [
        "rate_limiter.messages = \"many\" (RATE_LIMIT_COUNT in the environment)",
        "log.level = \"info,staffai=loud\" (LOG_LEVEL in the environment)",
        "llm.url = \"http://***@127.0.0.1:1\" (LITELLM_API_URL in the environment)",
        "discord.token (DISCORD_BOT_TOKEN): is not set",
        "personality_prompt.txt: the prompt is empty",
        "response_schema.json: not json",
        "the variable GONE is not set",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_settings_add_up_wherever_they_are_named() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    for (file, text) in [("a.toml", "[turn]\nlane = 1\nopen = 5\n"), ("b.toml", "[turn]\nlane = 2\n")] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.args(["--config", "a.toml", "config", "--config", "b.toml"]).env_clear().current_dir(folder.path());
    let (code, text) = end_of(command).await;
    assert_eq!(code, i32::from(exit::FINE), "{text}");
    for words in ["turn.open = 5  # a.toml:3", "turn.lane = 2  # b.toml:2"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    drop(service);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_breaks_no_command() {
    let folder = tempfile::tempdir().unwrap();
    for (words, code) in [("tree", exit::FINE), ("config", exit::FINE), ("check --offline", exit::NEGATIVE)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
        command.args(words.split(' ')).env_clear().current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(i32::from(code)) && !text.contains("panicked"), "{words}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_does_not_end_a_run() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = run(folder.path(), &service);
    command.env("STAFFAI_HTTP_ADDR", taken.local_addr().unwrap().to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    tokio::time::timeout(TIMEOUT, service.connected(0)).await.expect("the bot comes to discord all the same");
    Command::new("/bin/kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("ops.unreachable"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_config_tell_what_they_can_beside_a_mistake() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let beside = |argument: &str, mistake: (&str, &str)| {
        let mut command = program(argument, folder.path(), &service);
        command.env(mistake.0, mistake.1).env("STAFFAI_TURM__DEADLINE", "5s");
        command
    };
    // Nothing listens there, which `health` must report despite the other mistakes.
    let mut health = beside("health", ("STAFFAI_TURN__DEADLINE", "soon"));
    health.env("STAFFAI_HTTP_ADDR", "127.0.0.1:1");
    ended(end_of(health).await, exit::NEGATIVE, "cannot be reached");
    let health = beside("health", ("STAFFAI_HTTP_ADDR", "nowhere"));
    ended(end_of(health).await, exit::USAGE, "http.addr");
    let (code, text) = end_of(beside("config", ("STAFFAI_TURN__DEADLINE", "soon"))).await;
    assert_eq!(code, i32::from(exit::USAGE), "{text}");
    for words in ["turn.deadline", "STAFFAI_TURM__DEADLINE", "llm.model = demo"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let (code, text) = end_of(beside("run", ("STAFFAI_TURN__DEADLINE", "soon"))).await;
    assert_eq!(code, i32::from(exit::USAGE), "{text}");
    assert!(text.contains("turn.deadline") && text.contains("STAFFAI_TURM__DEADLINE"), "{text}");
}

/// Answers every request with 200, and records it.
fn another_service() -> (String, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, heard) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(String::new())));
    let ears = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 8192];
            let read = stream.read(&mut buffer).unwrap_or(0);
            ears.lock().push_str(&String::from_utf8_lossy(&buffer[..read]));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        }
    });
    (address, heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_service_at_our_address_is_not_taken_for_ours() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let (address, heard) = another_service();
    let asked = |argument: &str| {
        let mut command = program(argument, folder.path(), &service);
        command.env("STAFFAI_HTTP_ADDR", &address).env("STAFFAI_API_KEYS", "the-key-of-the-house");
        command
    };
    ended(end_of(asked("health")).await, exit::NEGATIVE, "is not staffai");
    ended(end_of(asked("chat")).await, exit::FINE, "no service runs here");
    let heard = heard.lock().clone();
    assert!(heard.contains("GET /healthz") && !heard.contains("the-key-of-the-house"), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_conversations_without_a_service_do_not_get_in_each_others_way() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let held = Opener::new(folder.path().join("data/chat"), Arc::new(SystemClock)).open().unwrap();
    let mut chat = program("chat", folder.path(), &service);
    chat.env("STAFFAI_HTTP_ADDR", "127.0.0.1:1");
    ended(end_of(chat).await, exit::FINE, "no service runs here");
    assert!(folder.path().join("data/chat-2").join(FILE).exists());
    drop(held);
}

/// A running program whose output is read.
struct Running {
    child: std::process::Child,
    log: std::path::PathBuf,
}

impl Running {
    fn start(mut command: Command, folder: &Path) -> Self {
        let log = folder.join("log");
        let out = std::fs::File::create(&log).unwrap();
        let child = command.stdout(out).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        Self { child, log }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until the log has these words this many times.
    async fn says(&mut self, words: &str, times: usize) -> String {
        let until = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let text = std::fs::read_to_string(&self.log).unwrap();
            if text.matches(words).count() >= times {
                return text;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && tokio::time::Instant::now() < until, "no {words}, {ended:?}\n{text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the exit code, if the program ends within this time.
    async fn code(&mut self, within: Duration) -> Option<i32> {
        let until = tokio::time::Instant::now() + within;
        while tokio::time::Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status.code().unwrap_or(-1));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sigterm_ends_a_drain_at_once() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    // A model that never answers, so that a turn stays open.
    let model = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = run(folder.path(), &service);
    command.env("LITELLM_API_URL", format!("http://{}", model.local_addr().unwrap()));
    let mut running = Running::start(command, folder.path());
    tokio::time::timeout(TIMEOUT, service.connected(0)).await.expect("the bot comes to discord");
    let member = service.members().into_iter().find(|member| !member.bot).unwrap().id;
    let asked = format!("<@{}> hello", service.bot());
    let _ = service.says(member, service.channels()[0].id, &asked, None);
    let held = tokio::task::spawn_blocking(move || model.accept().map(|(stream, _)| (model, stream)));
    let held = tokio::time::timeout(TIMEOUT, held).await.expect("the model is asked").unwrap().unwrap();
    running.signal("-TERM");
    running.says("drain.started", 1).await;
    assert_eq!(running.code(Duration::from_secs(1)).await, None, "the drain waits for the open turn");
    running.signal("-TERM");
    assert_eq!(running.code(Duration::from_secs(10)).await, Some(i32::from(exit::FINE)));
    let text = std::fs::read_to_string(&running.log).unwrap();
    assert!(text.contains("stopped at once") && !text.contains("nothing is left"), "{text}");
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_everything_again_and_a_mistake_changes_nothing() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let mut running = Running::start(run(folder.path(), &service), folder.path());
    tokio::time::timeout(TIMEOUT, service.connected(0)).await.expect("the bot comes to discord");
    // No file changed: only the signal causes a reload.
    running.signal("-HUP");
    running.says("config.reloaded", 1).await;
    running.signal("-HUP");
    running.says("config.reloaded", 2).await;
    let timer = "[[triggers.timers]]\nname = 'a'\ncron = 'daily'\nzone = 'Mars'\nprompt = 'x'\ntarget = 'discord:1'\n";
    std::fs::write(folder.path().join("staffai.toml"), format!("{timer}[turn]\nlane = \"many\"\n")).unwrap();
    std::fs::write(folder.path().join("response_schema.json"), "{").unwrap();
    running.signal("-HUP");
    let text = running.says("config.rejected", 1).await;
    for words in ["turn.lane", "is no cron expression", "is no time zone", "response_schema.json"] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    running.signal("-TERM");
    assert_eq!(running.code(TIMEOUT).await, Some(i32::from(exit::FINE)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_where_the_store_is_and_never_its_password() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let mut command = run(folder.path(), &service);
    command.env("REDIS_URL", "redis://:a-long-password@127.0.0.1:1/0");
    let mut running = Running::start(command, folder.path());
    let text = running.says("lease.awaited", 1).await;
    assert!(text.contains("redis at 127.0.0.1:1"), "{text}");
    assert!(!text.contains("a-long-password"), "{text}");
    running.signal("-TERM");
    let _ = running.code(TIMEOUT).await;
    let text = std::fs::read_to_string(&running.log).unwrap();
    assert!(!text.contains("a-long-password"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_printed_from_the_store_where_no_service_runs_and_makes_none() {
    let service = discord(|_| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = end_of(program("audit", folder.path(), &service)).await;
    assert_eq!(code, i32::from(exit::NEGATIVE), "{text}");
    assert!(text.contains("no data is stored in") && !folder.path().join("data").exists(), "{text}");

    let store = Opener::new(folder.path().join("data"), Arc::new(SystemClock)).open().unwrap();
    let line = |who: &str, tool: &str| {
        let line = serde_json::json!({
            "at": NOW, "event": "called", "call": 1, "outcome": "ok", "duration_ms": 3, "person": format!("discord:{who}"),
            "place": "discord:42", "tool": tool, "args_sha256": "ab", "turn": "discord:10",
        });
        let key = format!("staffai:audit:discord:{who}:{NOW}:call-{tool}");
        ports::Write::Put { key, value: line.to_string(), ttl: None }
    };
    let lines = vec![line("7", "roll_dice"), line("7", "fm__delete"), line("8", "roll_dice")];
    store.apply(lines.into()).await.unwrap();
    store.close().await;
    for (args, many) in
        [(&[] as &[&str], 3), (&["--member", "7"], 2), (&["--tool", "fm__*"], 1), (&["--since", "1s"], 0)]
    {
        let mut command = program("audit", folder.path(), &service);
        command.args(args);
        let (code, text) = end_of(command).await;
        assert_eq!((code, text.lines().count()), (i32::from(exit::FINE), many), "{args:?}: {text}");
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    }
}
