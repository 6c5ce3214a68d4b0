//! Clients of processes that stand by: the active process serves them, also after another one took over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use playground::demo_model::DemoModel;
use playground::guild::seed::Seed;
use playground::interactions::Interact;
use playground::service::{Options, Service};
use ports::Clock;
use rustix::process::Signal;
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::rows::Process;
use crate::server::Server;
use crate::support::{PATIENCE, bot_on, count, log, logs, output, until};

/// The time in which a killed process is replaced: a term and the start of the other one on a loaded machine.
const TAKEN_OVER: Duration = Duration::from_secs(20);

/// The secret of a webhook.
const HOOK: &str = "a secret of this story";

/// A server of Redis, a playground, and the folders of processes with the same two keys.
struct Cluster {
    server: Server,
    service: Service,
    model: DemoModel,
    dir: TempDir,
    client: reqwest::Client,
    key: String,
    revoked: String,
    first: u8,
    ranges: u32,
    /// Further settings of the processes.
    more: Vec<(&'static str, String)>,
}

/// The options of a service with this many shards.
fn options(shards: u32) -> Options {
    let clock = Arc::new(|| SystemClock.now().0);
    Options { identify_period: Duration::ZERO, shards, ..Options::new(clock) }
}

impl Cluster {
    /// `first` is the number before those of its processes, which no other test has.
    async fn new(first: u8) -> Self {
        Self::divided(first, 1).await
    }

    /// The same with this many ranges, each with one shard.
    async fn divided(first: u8, ranges: u32) -> Self {
        Self::of(first, options(ranges)).await
    }

    /// The same with a service of these options.
    async fn of(first: u8, options: Options) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ranges = options.shards;
        let (service, model) =
            (Service::start(options).await.unwrap(), DemoModel::start(Duration::from_millis(100)).await.unwrap());
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let (key, revoked) = (String::new(), String::new());
        let mut cluster = Self {
            server: Server::start(),
            service,
            model,
            dir: TempDir::new().unwrap(),
            client,
            key,
            revoked,
            first,
            ranges,
            more: Vec::new(),
        };
        cluster.key =
            cluster.runs(&["key", "add", "kept", "--right", "chat", "--right", "tools", "--right", "operate"]);
        cluster.revoked = cluster.runs(&["key", "add", "revoked"]);
        cluster
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let more = [
            ("STAFFAI_CLUSTER__RANGES", self.ranges.to_string()),
            ("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true".to_owned()),
            ("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "roll_dice".to_owned()),
        ];
        let more = more.into_iter().chain(self.more.clone());
        bot_on(&self.server, &self.service, &self.model).into_iter().chain(more).collect()
    }

    /// Runs a command in the folder of the first process; returns its output.
    fn runs(&self, arguments: &[&str]) -> String {
        let folder = self.folder(1);
        std::fs::create_dir_all(folder.join("data")).unwrap();
        output(&folder, &self.variables(), arguments).trim().to_owned()
    }

    fn folder(&self, number: u8) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    /// Starts a process that the others reach.
    fn start(&self, number: u8) -> Process {
        let folder = self.folder(number);
        std::fs::create_dir_all(folder.join("data")).unwrap();
        if number > 1 {
            std::fs::copy(self.folder(1).join("data/keys.json"), folder.join("data/keys.json")).unwrap();
        }
        let mut variables = self.variables();
        variables.push(("STAFFAI_CLUSTER__ADDRESS", Process::address_of(self.first + number).to_string()));
        Process::start(&folder, self.first + number, &variables)
    }

    /// Starts one process that is active, and further ones that stand by and pass requests on.
    async fn started(&self, standby: u8) -> (Process, Vec<Process>) {
        let active = self.start(1);
        self.logs(1, "gateway.ready").await;
        let mut others = Vec::new();
        for number in 2..2 + standby {
            others.push(self.start(number));
            self.logs(number, "lease.awaited").await;
            let process = others.last().unwrap();
            until("its pages are there", || std::net::TcpStream::connect(process.address).is_ok()).await;
            self.answers(process).await;
        }
        (active, others)
    }

    async fn logs(&self, number: u8, event: &str) {
        logs(&self.folder(number), event).await;
    }

    /// Returns the range that a process took last, such as `1/2`.
    fn range_of(&self, number: u8) -> Option<String> {
        let log = log(&self.folder(number));
        let changes = ["lease.taken", "lease.given"].map(|event| format!("\"event\":\"{event}\""));
        let mut held = std::collections::BTreeSet::new();
        for line in log.lines().filter(|line| changes.iter().any(|change| line.contains(change))) {
            let line: Value = serde_json::from_str(line).unwrap();
            let range = line["range"].as_str().unwrap_or_default().to_owned();
            if line["event"] == "lease.taken" {
                held.insert(range)
            } else {
                held.remove(&range)
            };
        }
        Some(held.into_iter().collect::<Vec<_>>().join(" ")).filter(|held| held.len() == 3)
    }

    /// Waits until the models are listed at a process. Every refusal on the way says when to ask again.
    async fn answers(&self, process: &Process) {
        let end = Instant::now() + TAKEN_OVER;
        loop {
            let answer = self.get(process, "/v1/models", &self.key).await.expect("a process always listens");
            if answer.status() == 200 {
                return;
            }
            let says_when = answer.status() == 503 && answer.headers().contains_key("retry-after");
            assert!(says_when || answer.status() == 502, "{answer:?}");
            assert!(Instant::now() < end, "{} passes nothing on", process.address);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn get(&self, process: &Process, path: &str, key: &str) -> reqwest::Result<reqwest::Response> {
        self.client.get(format!("http://{}{path}", process.address)).bearer_auth(key).send().await
    }

    async fn post(&self, process: &Process, path: &str, body: &Value) -> reqwest::Response {
        let request = self.client.post(format!("http://{}{path}", process.address)).bearer_auth(&self.key);
        request.json(body).send().await.unwrap()
    }

    async fn end(self, processes: Vec<Process>) {
        drop(processes);
        self.service.stop().await;
        self.model.stop().await;
    }
}

/// The events of a stream of a session.
struct Events {
    answer: reqwest::Response,
    text: String,
    /// All that was read.
    seen: String,
}

impl Events {
    async fn of(cluster: &Cluster, process: &Process, session: &str) -> Self {
        let answer = cluster.get(process, &format!("/api/v1/stream/{session}?after=0"), &cluster.key).await.unwrap();
        assert_eq!(answer.status(), 200);
        Self { answer, text: String::new(), seen: String::new() }
    }

    /// Reads until an event of this kind.
    async fn until(&mut self, kind: &str) -> Value {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let event = line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok());
                let rest = rest.to_owned();
                self.text = rest;
                if let Some(event) = event.filter(|event| event["event"] == kind) {
                    return event;
                }
            }
            let piece = timeout(PATIENCE, self.answer.chunk()).await.expect("in time");
            let piece = piece.unwrap_or_else(|error| panic!("no {kind}: {error}: {}", self.seen));
            let piece = piece.expect("more events");
            self.seen.push_str(std::str::from_utf8(&piece).unwrap());
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

#[tokio::test]
async fn a_client_of_a_process_that_stands_by_has_every_door_of_the_active_one() {
    let cluster = Cluster::new(100).await;
    let (active, standby) = cluster.started(1).await;
    let other = &standby[0];
    let ready: Value = cluster.get(other, "/readyz", "").await.unwrap().json().await.unwrap();
    assert_eq!(ready["status"], "standby", "health is its own");

    // A question over the OpenAI API, answered in pieces.
    let question = json!({"model": "staffai", "stream": true, "messages": [{"role": "user", "content": "which way to the harbour"}]});
    let mut answer = cluster.post(other, "/v1/chat/completions", &question).await;
    assert_eq!(answer.status(), 200);
    let (mut pieces, mut text) = (0, String::new());
    while let Some(piece) = answer.chunk().await.unwrap_or_else(|error| panic!("{error}: {text}")) {
        (pieces, text) = (pieces + 1, text + std::str::from_utf8(&piece).unwrap());
    }
    assert!(pieces > 1 && text.contains("data: [DONE]"), "{pieces}: {text}");

    // A session: its stream, an approval and its answer.
    let submitted = cluster.post(other, "/api/v1/submit", &json!({"session": "main", "text": "roll 2d6"})).await;
    assert_eq!(submitted.status(), 202);
    let mut events = Events::of(&cluster, other, "main").await;
    let gate = events.until("gate").await;
    let path = format!("/api/v1/gate/{}", gate["id"].as_str().unwrap());
    let decided = cluster.post(other, &path, &json!({"approve": true})).await;
    assert_eq!(decided.status(), 200);
    let reply = events.until("final").await;
    assert!(reply["text"].as_str().unwrap().contains("The dice have fallen"), "{reply}");

    // A socket of voice, and one of responses.
    for (path, sent, kind) in [
        ("/api/v1/voice?session=talk", json!({"event": "text", "text": "hello"}), "sentence"),
        (
            "/v1/responses",
            json!({"type": "response.create", "model": "staffai", "input": "hello"}),
            "response.completed",
        ),
    ] {
        let mut request = format!("ws://{}{path}", other.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {}", cluster.key).parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        socket.send(Message::text(sent.to_string())).await.unwrap();
        let heard = async {
            while let Some(Ok(frame)) = socket.next().await {
                if frame.is_text() && frame.to_text().unwrap().contains(kind) {
                    return true;
                }
            }
            false
        };
        assert!(timeout(PATIENCE, heard).await.unwrap_or(false), "{path}: no {kind}");
    }

    // Pages of operators, and strangers.
    let tree: Value = cluster.get(other, "/api/v1/tree", &cluster.key).await.unwrap().json().await.unwrap();
    assert_eq!(tree["name"], "staffai");
    let listed: Value = cluster.get(other, "/api/v1/cluster", &cluster.key).await.unwrap().json().await.unwrap();
    let listed: Vec<_> = listed["processes"].as_array().unwrap().iter().collect();
    for (process, state) in [(&active, "active"), (other, "standby")] {
        let address = process.address.to_string();
        let row = listed.iter().find(|row| row["reached_at"] == address.as_str()).unwrap();
        assert_eq!((&row["state"], &row["version"]), (&json!(state), &json!(env!("CARGO_PKG_VERSION"))), "{row}");
    }
    assert_eq!(cluster.get(other, "/", &cluster.key).await.unwrap().status(), 200);
    assert_eq!(cluster.get(other, "/v1/models", "guessed").await.unwrap().status(), 401);
    let marked = cluster.client.get(format!("http://{}/v1/models", other.address)).bearer_auth(&cluster.key);
    let marked = marked.header("x-staffai-passed-on", "127.0.0.1 127.0.0.1 v1=00").send().await.unwrap();
    assert_eq!(marked.status(), 503, "a request is passed on once");
    cluster.end([active].into_iter().chain(standby).collect()).await;
}

#[tokio::test]
async fn a_revoked_key_ends_streams_that_pass_through_another_process() {
    let cluster = Cluster::new(110).await;
    let (active, standby) = cluster.started(1).await;
    let submit = cluster.client.post(format!("http://{}/api/v1/submit", standby[0].address));
    let submit = submit.bearer_auth(&cluster.revoked).json(&json!({"session": "main", "text": "hello"}));
    assert_eq!(submit.send().await.unwrap().status(), 202);
    let mut stream = cluster.get(&standby[0], "/api/v1/stream/main", &cluster.revoked).await.unwrap();
    assert_eq!(stream.status(), 200);
    cluster.runs(&["key", "revoke", "revoked"]);
    let begun = Instant::now();
    let cut = async { while let Ok(Some(_)) = stream.chunk().await {} };
    timeout(Duration::from_secs(20), cut).await.expect("its stream ends");
    // The bound is 2 s; the rest is slack for loaded machines.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(cluster.get(&standby[0], "/v1/models", &cluster.revoked).await.unwrap().status(), 401);
    cluster.end([active].into_iter().chain(standby).collect()).await;
}

#[tokio::test]
async fn after_a_kill_the_next_request_at_the_same_address_is_answered_by_the_new_active_process() {
    let cluster = Cluster::new(120).await;
    let (active, standby) = cluster.started(2).await;
    let ask = async |process: &Process, text: &str| {
        let body = json!({"session": "main", "text": text, "wait": true});
        let answer = cluster.post(process, "/api/v1/submit", &body).await;
        let (status, answer) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
        assert_eq!((status, &answer["status"]), (200, &json!("complete")), "{answer}");
    };
    let mut streams = Vec::new();
    for process in &standby {
        ask(process, "hello").await;
        streams.push(Events::of(&cluster, process, "main").await);
    }
    active.signal(Signal::KILL);
    for mut stream in streams {
        let broken = async { while let Ok(Some(_)) = stream.answer.chunk().await {} };
        timeout(PATIENCE, broken).await.expect("a stream ends with the process that sends it");
    }
    let killed = Instant::now();
    for process in &standby {
        cluster.answers(process).await;
        println!("{} answers {} ms after the kill", process.address, killed.elapsed().as_millis());
        ask(process, "and again").await;
    }
    // The session has gone on: both processes show all of it.
    for process in &standby {
        let shown = cluster.get(process, "/api/v1/sessions/main", &cluster.key).await.unwrap().text().await.unwrap();
        assert!(shown.contains("hello") && shown.contains("and again"), "{shown}");
    }
    let states: Vec<_> = standby.iter().map(|process| cluster.get(process, "/readyz", "")).collect();
    let mut standing_by = 0;
    for state in states {
        let ready: Value = state.await.unwrap().json().await.unwrap();
        standing_by += usize::from(ready["status"] == "standby");
    }
    assert_eq!(standing_by, 1, "one of them is active, the other one passes requests on");
    cluster.end([active].into_iter().chain(standby).collect()).await;
}

#[tokio::test]
async fn programs_may_use_any_active_process_of_a_divided_bot() {
    let cluster = Cluster::divided(150, 2).await;
    let one = cluster.start(1);
    cluster.logs(1, "gateway.ready").await;
    let two = cluster.start(2);
    cluster.answers(&one).await;
    until("its pages are there", || std::net::TcpStream::connect(two.address).is_ok()).await;
    until("each has a range", || cluster.range_of(1).is_some() && cluster.range_of(2).is_some()).await;
    cluster.answers(&two).await;
    let (first, other) = if cluster.range_of(1).as_deref() == Some("0/2") { (&one, &two) } else { (&two, &one) };
    let ready: Value = cluster.get(other, "/readyz", "").await.unwrap().json().await.unwrap();
    assert_eq!(ready["range"], "1/2", "{ready}");

    // A session begun at one is read at the other, its stream, too; an approval arrives from either.
    let mut seen = 0;
    for (begun, read) in [(first, other), (other, first)] {
        let submitted = cluster.post(begun, "/api/v1/submit", &json!({"session": "main", "text": "roll 2d6"})).await;
        assert_eq!(submitted.status(), 202);
        let path = format!("/api/v1/stream/main?after={seen}");
        let answer = cluster.get(read, &path, &cluster.key).await.unwrap();
        let mut events = Events { answer, text: String::new(), seen: String::new() };
        let gate = events.until("gate").await;
        // The stream breaks off, and is read on at the other process.
        seen = gate["number"].as_u64().unwrap_or(seen);
        let answer = cluster.get(begun, &format!("/api/v1/stream/main?after={seen}"), &cluster.key).await.unwrap();
        let mut events = Events { answer, text: String::new(), seen: String::new() };
        let path = format!("/api/v1/gate/{}", gate["id"].as_str().unwrap());
        assert_eq!(cluster.post(read, &path, &json!({"approve": true})).await.status(), 200);
        let reply = events.until("final").await;
        assert!(reply["text"].as_str().unwrap().contains("The dice have fallen"), "{reply}");
        seen = reply["number"].as_u64().unwrap_or(seen);
        let shown = cluster.get(read, "/api/v1/sessions/main", &cluster.key).await.unwrap().text().await.unwrap();
        assert!(shown.contains("roll 2d6"), "{shown}");
    }
    // A client of the OpenAI API, and the pages of the process itself.
    let question = json!({"model": "staffai", "messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(cluster.post(other, "/v1/chat/completions", &question).await.status(), 200);
    let tree = cluster.get(other, "/api/v1/tree", &cluster.key).await.unwrap().text().await.unwrap();
    assert!(tree.contains("discord/shard:1") && !tree.contains("discord/shard:0"), "its own tree: {tree}");

    // A revoked key is refused at both.
    assert_eq!(cluster.get(other, "/v1/models", &cluster.revoked).await.unwrap().status(), 200);
    cluster.runs(&["key", "revoke", "revoked"]);
    let revoked = Instant::now();
    for process in [first, other] {
        while cluster.get(process, "/v1/models", &cluster.revoked).await.unwrap().status() != 401 {
            assert!(revoked.elapsed() < Duration::from_secs(4), "the bound is 2 s; the rest is slack");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    // The process with the first range ends: the other one takes it, and serves the session itself.
    first.signal(Signal::KILL);
    let killed = Instant::now();
    cluster.answers(other).await;
    println!("answers {} ms after the kill", killed.elapsed().as_millis());
    let shown = cluster.get(other, "/api/v1/sessions/main", &cluster.key).await.unwrap().text().await.unwrap();
    assert!(shown.contains("roll 2d6"), "{shown}");
    let listed: Value = cluster.get(other, "/api/v1/cluster", &cluster.key).await.unwrap().json().await.unwrap();
    let ranges = listed["ranges"].as_array().unwrap();
    assert!(ranges.iter().all(|range| range["process"] == ranges[0]["process"]), "{ranges:?}");
    assert!(ranges[0]["moves"] == 1 && listed["processes"][0]["lag_ms"].is_u64(), "{listed}");
    cluster.end(vec![one, two]).await;
}

#[tokio::test]
async fn an_approval_of_a_webhook_in_a_guild_of_another_range_is_decided_there() {
    let mut cluster = Cluster::of(160, Options { seed: Seed::many(2, 1), ..options(2) }).await;
    // The two guilds have different ranges; the webhook posts to the one of the second range.
    let guild = cluster.service.guilds().into_iter().find(|guild| (guild.id.0 >> 22) % 2 == 1).unwrap();
    let channels = cluster.service.channels();
    let channel = channels.iter().find(|channel| channel.guild == Some(guild.id)).unwrap().id;
    let role = guild.roles.iter().find(|role| role.name == "moderator").unwrap().id;
    let chloe = guild.members.iter().find(|member| member.roles.contains(&role)).unwrap().id;
    let hook = format!(
        "[{{name = 'ci', secret = '{HOOK}', scheme = 'gitlab', target = 'discord:{channel}', prompt = 'roll 2d6', tools = true}}]"
    );
    let rules = format!("[{{tools = 'roll_dice', verdict = 'ask', approvers = [{role}]}}]");
    cluster.more = vec![("STAFFAI_HOOKS", hook), ("STAFFAI_TOOLS__RULES", rules)];
    cluster.more.push(("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", String::new()));
    let one = cluster.start(1);
    until("it takes both ranges", || count(&cluster.folder(1), "lease.taken") == 2).await;
    for shard in 0..2 {
        timeout(PATIENCE, cluster.service.connected(shard)).await.expect("each range connects");
    }
    let two = cluster.start(2);
    cluster.logs(2, "gateway.resumed").await;
    // The other process passes the request on, and gets the click.
    let sent =
        cluster.client.post(format!("http://{}/hooks/ci", two.address)).header("X-Gitlab-Token", HOOK).body("{}");
    let sent = sent.send().await.unwrap();
    assert_eq!(sent.status(), 202, "{}", sent.text().await.unwrap());
    let said = || cluster.service.messages(channel).into_iter().rev().find(|message| !message.components.is_empty());
    let end = Instant::now() + PATIENCE;
    let asked = loop {
        if let Some(asked) = said() {
            break asked;
        }
        let heard = cluster.service.messages(channel);
        assert!(Instant::now() < end, "it asks: {heard:?}\n{}", log(&cluster.folder(1)));
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let approve = asked.components[0]["components"][0]["custom_id"].as_str().unwrap().to_owned();
    let press = Interact::Component(asked.id, approve, Vec::new());
    cluster.service.interacts(chloe, channel, press).expect("a known member and channel");
    let rolled =
        || cluster.service.messages(channel).iter().any(|message| message.content.contains("The dice have fallen"));
    until("the call runs", rolled).await;
    assert_eq!((count(&cluster.folder(1), "gate.decided"), count(&cluster.folder(2), "gate.decided")), (1, 0));
    assert_eq!(cluster.service.doubled(), 0);
    cluster.end(vec![one, two]).await;
}

#[tokio::test]
async fn a_spare_process_of_a_divided_bot_passes_requests_on_to_the_first_range() {
    let cluster = Cluster::divided(130, 2).await;
    let active = [cluster.start(1), cluster.start(2)];
    for shard in 0..2 {
        timeout(PATIENCE, cluster.service.connected(shard)).await.expect("each range connects");
    }
    let spare = cluster.start(3);
    cluster.logs(3, "lease.awaited").await;
    until("its pages are there", || std::net::TcpStream::connect(spare.address).is_ok()).await;
    cluster.answers(&spare).await;
    // One session reaches one process.
    for text in ["hello", "and again"] {
        let body = json!({"session": "main", "text": text, "wait": true});
        assert_eq!(cluster.post(&spare, "/api/v1/submit", &body).await.status(), 200);
    }
    let shown = cluster.get(&spare, "/api/v1/sessions/main", &cluster.key).await.unwrap().text().await.unwrap();
    assert!(shown.contains("hello") && shown.contains("and again"), "{shown}");
    let listed: Value = cluster.get(&spare, "/api/v1/cluster", &cluster.key).await.unwrap().json().await.unwrap();
    let mut states: Vec<_> =
        listed["processes"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["active", "active", "standby"]);
    // Each range is held by another one of the active processes.
    let ranges = listed["ranges"].as_array().unwrap();
    assert_eq!(ranges.iter().map(|row| row["range"].as_str().unwrap()).collect::<Vec<_>>(), ["0/2", "1/2"]);
    let state = |name: &Value| listed["processes"].as_array().unwrap().iter().find(|row| row["name"] == *name);
    let holders = ranges.iter().map(|row| &state(&row["process"]).expect("the holder reports")["state"]);
    assert_eq!(holders.collect::<Vec<_>>(), ["active", "active"]);
    assert!(ranges[0]["process"] != ranges[1]["process"] && ranges[0]["held_seconds"].is_u64(), "{ranges:?}");
    cluster.end(active.into_iter().chain([spare]).collect()).await;
}
