//! Backup of a running service and restore into an empty store; compatibility with the previous version's data.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::service::Service;
use serde_json::Value;
use staffai::app::exit;

use super::{Running, TIMEOUT, discord, end_of, program, run};

/// One line per family of keys, as the previous version wrote them. `UPDATE_ROWS=1` records them, which is done with
/// the last change of a version.
const BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exit_codes/rows_before.jsonl");

/// A service, a model and a running bot that has answered some questions.
struct World {
    service: Service,
    model: DemoModel,
    folder: tempfile::TempDir,
    bot: Option<Running>,
    address: String,
}

impl World {
    async fn start() -> Self {
        let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
        let model = DemoModel::start(Duration::ZERO).await.unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut world = Self { service, model, folder, bot: None, address: free.to_string() };
        world.bot = Some(Running::start(world.adapted(run(world.folder.path(), &world.service)), world.folder.path()));
        tokio::time::timeout(TIMEOUT, world.service.connected(0)).await.expect("the bot comes to discord");
        world
    }

    fn adapted(&self, mut command: Command) -> Command {
        command.env("LITELLM_API_URL", self.model.base_url()).env("STAFFAI_HTTP_ADDR", &self.address);
        command
    }

    async fn command(&self, words: &[&str], more: &[(&str, &str)]) -> (i32, String) {
        let mut command = self.adapted(program(words[0], self.folder.path(), &self.service));
        command.args(&words[1..]).envs(more.iter().copied());
        end_of(command).await
    }

    /// Asks and awaits the answer.
    async fn asks(&mut self, text: &str) {
        let member = self.service.members().into_iter().find(|member| !member.bot).unwrap().id;
        self.bot.as_mut().unwrap().says("gateway.ready", 1).await;
        let before = std::fs::read_to_string(&self.bot.as_ref().unwrap().log).unwrap().matches("turn.replied").count();
        let asked = format!("<@{}> {text}", self.service.bot());
        let _ = self.service.says(member, self.service.channels()[0].id, &asked, None);
        self.bot.as_mut().unwrap().says("turn.replied", before + 1).await;
    }

    async fn stop(&mut self) {
        let mut bot = self.bot.take().unwrap();
        bot.signal("-TERM");
        assert_eq!(bot.code(TIMEOUT).await, Some(i32::from(exit::FINE)));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns the keys of a backup with their values.
fn rows(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, field: &str| line[field].as_str().map(str::to_owned);
    lines.filter_map(|line| Some((text(&line, "key")?, text(&line, "value")?))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_running_service_is_put_back_into_an_empty_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut world = World::start().await;
    world.asks("what is 2 + 2").await;
    let (code, told) = world.command(&["backup", "copy"], &[]).await;
    assert!(code == i32::from(exit::FINE) && told.contains("keep it where only you can read it"), "{told}");
    assert_eq!(std::fs::metadata(world.path("copy")).unwrap().permissions().mode() & 0o777, 0o600);
    let copied = rows(&world.path("copy"));
    let has =
        |part: &str| copied.iter().any(|(key, value)| key.starts_with("discord_context:") && value.contains(part));
    assert!(has("2 + 2"), "{copied:?}");

    let mut command = world.adapted(program("backup", world.folder.path(), &world.service));
    let streamed = command.arg("-").stdin(Stdio::null()).output().unwrap();
    assert_eq!(streamed.status.code(), Some(i32::from(exit::FINE)), "{}", String::from_utf8_lossy(&streamed.stderr));
    std::fs::write(world.path("streamed"), &streamed.stdout).unwrap();
    let conversations = |rows: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        rows.clone().into_iter().filter(|(key, _)| key.starts_with("discord_context:")).collect()
    };
    assert_eq!(conversations(&rows(&world.path("streamed"))), conversations(&copied));
    assert!(!world.path("-").exists());
    assert!(Command::new("mkfifo").arg(world.path("pipe")).status().unwrap().success());
    let (code, told) = world.command(&["backup", "pipe"], &[]).await;
    assert!(code == i32::from(exit::USAGE) && told.contains("is no regular file"), "{told}");

    // A running service holds its directory, and a used one is not empty.
    let (code, told) = world.command(&["restore", "copy"], &[]).await;
    assert!(code == i32::from(exit::IN_USE) && told.contains("in use by another process"), "{told}");
    world.stop().await;
    let (code, told) = world.command(&["restore", "copy"], &[]).await;
    assert!(code == i32::from(exit::NEGATIVE) && told.contains("the store is not empty"), "{told}");

    let other = [("STAFFAI_DATA_DIR", "other")];
    let (code, told) = world.command(&["restore", "copy"], &other).await;
    assert!(code == i32::from(exit::FINE) && told.contains(" keys and 0 files; skipped "), "{told}");
    let (code, told) = world.command(&["backup", "again"], &other).await;
    assert_eq!(code, i32::from(exit::FINE), "a store without a service is copied too: {told}");
    let windows = |key: &String| key.starts_with("token_rl:") || key.starts_with("msg_rl:");
    let lasting = |mut rows: BTreeMap<String, String>| {
        rows.retain(|key, _| !windows(key));
        rows
    };
    assert_eq!(lasting(rows(&world.path("again"))), lasting(copied));

    std::fs::write(world.path("cut"), &std::fs::read(world.path("copy")).unwrap()[..200]).unwrap();
    let (code, told) = world.command(&["restore", "cut"], &[("STAFFAI_DATA_DIR", "third")]).await;
    assert!(code == i32::from(exit::USAGE) && told.contains("is no whole copy"), "{told}");
    assert!(!world.path("third").exists(), "nothing is made for a copy that is not whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_needs_a_key_that_may_operate_once_there_are_keys() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let keyed = |mut command: Command| {
        command.env("STAFFAI_HTTP_ADDR", &free);
        command
    };
    let mut command = keyed(run(folder.path(), &service));
    command.env("STAFFAI_API_KEYS", "sk-of-a-sensible-length");
    let _bot = Running::start(command, folder.path());
    tokio::time::timeout(TIMEOUT, service.connected(0)).await.expect("the bot comes to discord");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!("http://{free}/api/v1/backup");
    let client = reqwest::Client::new();
    assert_eq!(client.get(&url).send().await.unwrap().status().as_u16(), 401);
    assert_eq!(client.get(&url).bearer_auth("sk-wrong").send().await.unwrap().status().as_u16(), 401);
    let answer = client.get(&url).bearer_auth("sk-of-a-sensible-length").send().await.unwrap();
    assert!(answer.status().is_success() && answer.text().await.unwrap().contains("staffai_backup"));
    let mut asked = keyed(program("backup", folder.path(), &service));
    asked.arg("copy");
    let (code, told) = end_of(asked).await;
    assert!(code == i32::from(exit::NEGATIVE) && told.contains("requires a key with the right operate"), "{told}");
    assert!(!folder.path().join("copy").exists());
}

/// Maximum memory of a restore in a test build: a line of 64 MB, and its parsed form.
const PEAK_MAX: u64 = 400 * 1024 * 1024;

/// Returns the exit code, the output, and the peak memory of the program.
async fn restored(folder: &Path, service: &Service, from: &str) -> (i32, String, u64) {
    let mut command = program("restore", folder, service);
    command.arg(from).env("STAFFAI_DATA_DIR", "new").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (status, until) = (format!("/proc/{}/status", child.id()), tokio::time::Instant::now() + TIMEOUT);
    let mut peak = 0;
    let code = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended.code().unwrap_or(-1);
        }
        assert!(tokio::time::Instant::now() < until || child.kill().is_err(), "{from}: restore does not end");
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak = line.map_or(peak, |kilobytes| kilobytes.parse::<u64>().unwrap() * 1024);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (code, told, peak)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_copy_takes_bounded_memory_and_no_pipe_is_waited_for() {
    let (service, folder) = (discord(|_| {}).await, tempfile::tempdir().unwrap());
    let head = r#"{"staffai_backup":1,"program":"x","at":1}"#;
    let many = |value: &str| format!("{head}\n{{\"a\":[{}0]}}\n", value.repeat(60_000_000 / value.len()));
    let long = format!("{head}\n{{\"key\":\"a\",\"value\":\"{}\"}}\n", "\\u0001".repeat(10_000_000));
    for (text, why) in [
        (many("1,"), "a line cannot be read"),
        (many("[],"), "a line cannot be read"),
        (many("{\"b\":\"\"},"), "a line cannot be read"),
        (long, "its end is missing"),
    ] {
        std::fs::write(folder.path().join("copy"), text).unwrap();
        let (code, told, peak) = restored(folder.path(), &service, "copy").await;
        assert!(code == i32::from(exit::USAGE) && told.contains(why), "{told}");
        assert!(peak < PEAK_MAX, "{why}: {peak} bytes");
    }
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    for name in ["pipe", "/dev/zero", "."] {
        let (code, told, peak) = restored(folder.path(), &service, name).await;
        assert!(code == i32::from(exit::USAGE) && told.contains("is no regular file"), "{name}: {told}");
        assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
    }
}

/// Returns the kind of a key: the part before the first id.
fn family(key: &str) -> String {
    let parts: Vec<&str> = key.split(':').collect();
    if parts[0] == "staffai" { parts[..2.min(parts.len())].join(":") } else { parts[0].to_owned() }
}

/// Collects the fields of a value with their types: objects by name, lists by their items.
fn shape(value: &Value, place: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                // An id or a number is not a field's name.
                let name = if name.chars().any(|c| c.is_ascii_digit()) { "*" } else { name };
                shape(value, &format!("{place}.{name}"), into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| shape(item, &format!("{place}[]"), into)),
        Value::Null => {}
        Value::Bool(_) => drop(into.insert(format!("{place}: flag"))),
        Value::Number(_) => drop(into.insert(format!("{place}: number"))),
        Value::String(_) => drop(into.insert(format!("{place}: text"))),
    }
}

/// Returns the shapes of each family of keys in a backup.
fn shapes(path: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut shapes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, value) in rows(path) {
        let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
        shape(&value, "", shapes.entry(family(&key)).or_default());
    }
    shapes
}

/// Upgrade and downgrade. The previous version's data is read: nothing is set aside as unreadable, and a conversation
/// continues. This version's data has every field of the previous one with its type, so that it can read it; it ignores
/// further fields.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "rows are recorded on demand")]
async fn what_the_version_before_left_is_read_and_what_this_one_leaves_is_read_by_it() {
    let mut world = World::start().await;
    world.asks("what is 2 + 2").await;
    world.asks("roll 2d6").await;
    let (code, told) = world.command(&["backup", "now"], &[]).await;
    assert_eq!(code, i32::from(exit::FINE), "{told}");
    world.stop().await;
    if std::env::var_os("UPDATE_ROWS").is_some() {
        std::fs::copy(world.path("now"), BEFORE).unwrap();
    }
    let (before, now) = (shapes(Path::new(BEFORE)), shapes(&world.path("now")));
    for (family, fields) in &before {
        let Some(written) = now.get(family) else {
            panic!("the version before reads {family}, and it is not written any more")
        };
        let missing: Vec<&String> = fields.difference(written).collect();
        assert!(missing.is_empty(), "{family}: the version before reads {missing:?}, which is not written any more");
    }
    // The rows of the previous version, without a timeout.
    let other = [("STAFFAI_DATA_DIR", "before")];
    let left = rows(Path::new(BEFORE));
    let lines = left.iter().map(|(key, value)| serde_json::json!({"key": key, "value": value}).to_string());
    sealed(&world.path("left"), lines);
    let (code, told) = world.command(&["restore", "left"], &other).await;
    assert_eq!(code, i32::from(exit::FINE), "{told}");
    let mut command = world.adapted(run(world.folder.path(), &world.service));
    command.envs(other);
    world.bot = Some(Running::start(command, world.folder.path()));
    world.asks("and what is 3 + 3").await;
    let (code, told) = world.command(&["backup", "after"], &other).await;
    assert_eq!(code, i32::from(exit::FINE), "{told}");
    world.stop().await;
    let after = rows(&world.path("after"));
    assert!(!after.keys().any(|key| key.starts_with("staffai:quarantine:")), "{after:?}");
    for (key, value) in left.iter().filter(|(key, _)| key.starts_with("discord_context:")) {
        let was: Vec<Value> = serde_json::from_str(value).unwrap();
        assert!(after.contains_key(key) && !was.is_empty(), "{key}");
    }
    let log = std::fs::read_to_string(world.path("log")).unwrap();
    assert!(!log.contains("store.corrupt") && !log.contains("quarantine"), "{log}");
}

/// Writes a backup of these rows.
fn sealed(path: &Path, rows: impl Iterator<Item = String>) {
    use sha2::{Digest, Sha256};
    let head = serde_json::json!({"staffai_backup": 1, "program": "before", "at": 1}).to_string();
    let lines: Vec<String> = std::iter::once(head).chain(rows).map(|line| line + "\n").collect();
    let hash: String = Sha256::digest(lines.concat()).iter().map(|byte| format!("{byte:02x}")).collect();
    let end = serde_json::json!({"lines": lines.len(), "sha256": hash});
    std::fs::write(path, format!("{}{end}\n", lines.concat())).unwrap();
}
