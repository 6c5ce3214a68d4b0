//! Processes that provide tools over NATS: a real server, the example's program, and hostile ones of the tests.

use std::io::BufRead;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subscriber};
use domain::tool::{CallErrorKind, ServerName, ToolRequest};
use futures_util::StreamExt;
use mcp::McpServers;
use mcp::nats::NatsProviders;
use nats::connect;
use ports::tools::{ConnectErrorKind, ServerEntry, Transport};
use ports::{ToolProviders, ToolServer, ToolServers};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::support::{call, names, request, text};

/// A server; stopped when dropped.
struct Nats {
    child: Child,
    url: String,
}

impl Nats {
    async fn start(args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_at(port, args).await
    }

    async fn start_at(port: u16, args: &[&str]) -> Self {
        let port = port.to_string();
        let mut server = Command::new("nats-server");
        server.args(["-a", "127.0.0.1", "-p", &port]).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let child = server.spawn().expect("nats-server is missing; ./test installs it");
        let address = format!("127.0.0.1:{port}");
        until("the server listens", async || tokio::net::TcpStream::connect(&address).await.is_ok()).await;
        Self { child, url: format!("nats://{address}") }
    }

    fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        // Its test may have killed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < end, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The listener, the last announcement, and the servers that can be connected.
struct Ears {
    servers: McpServers,
    announced: watch::Receiver<Vec<ServerEntry>>,
    listening: tokio::task::JoinHandle<String>,
}

impl Ears {
    /// Listens; receives everything that this client sends from then on.
    async fn beside(client: &Client, url: &str) -> Self {
        let mut asked = client.subscribe("staffai.tools.discover").await.unwrap();
        client.flush().await.unwrap();
        let ears = Self::at(url).await;
        asked.next().await.unwrap();
        ears
    }

    async fn at(url: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let providers = Arc::new(NatsProviders::new(url.into()));
        let (told, mut announced) = watch::channel(Vec::new());
        announced.mark_unchanged();
        let heard = Arc::clone(&providers);
        let sink = Arc::new(move |entries| drop(told.send_replace(entries)));
        let listening = tokio::spawn(async move { heard.listen(sink).await });
        let mut ears =
            Self { servers: McpServers { providers: Some(providers), ..McpServers::default() }, announced, listening };
        tokio::time::timeout(Duration::from_secs(10), ears.announced.changed()).await.unwrap().unwrap();
        ears
    }

    async fn hears(&mut self, names: &[&str]) {
        let is = |entries: &Vec<ServerEntry>| entries.iter().map(|entry| entry.name.as_str()).eq(names.iter().copied());
        let heard = tokio::time::timeout(Duration::from_secs(10), self.announced.wait_for(is)).await;
        assert!(heard.is_ok_and(|heard| heard.is_ok()), "{names:?} are announced");
    }

    async fn connect(&self, name: &str) -> Arc<dyn ToolServer> {
        self.servers.connect(&provider(name), Duration::from_secs(5)).await.unwrap()
    }
}

fn provider(name: &str) -> ServerEntry {
    ServerEntry::new(ServerName::new(name), Transport::Provider)
}

async fn publish(client: &Client, subject: &'static str, payload: &Value) {
    client.publish(subject, payload.to_string().into()).await.unwrap();
    client.flush().await.unwrap();
}

async fn announce(client: &Client, name: &str, tools: &[&str]) {
    let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    publish(client, "staffai.tools.announce", &json!({"provider": name, "instance": "1", "tools": tools})).await;
}

/// A provider that answers with these bytes.
async fn answers(client: &Client, name: &str, payload: impl Into<bytes::Bytes>) {
    let (mut calls, client, payload) = (takes_calls(client, name).await, client.clone(), payload.into());
    tokio::spawn(async move {
        while let Some(call) = calls.next().await {
            client.publish(call.reply.unwrap(), payload.clone()).await.unwrap();
        }
    });
}

async fn takes_calls(client: &Client, name: &str) -> Subscriber {
    let calls = client.subscribe(format!("staffai.tools.call.{name}")).await.unwrap();
    // A round trip over the same connection ensures that the subscription is active.
    let inbox = client.new_inbox();
    let mut back = client.subscribe(inbox.clone()).await.unwrap();
    client.publish(inbox, "".into()).await.unwrap();
    back.next().await.unwrap();
    calls
}

/// The example's program as a process of its own; killed when dropped.
struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn example(url: &str) -> Example {
    // Tests are in target/*/deps, examples next to it.
    let this = std::env::current_exe().unwrap();
    let program = this.parent().unwrap().parent().unwrap().join("examples/tool_provider");
    assert!(program.exists(), "build it first: cargo build --example tool_provider");
    Example(Command::new(program).env("NATS_URL", url).stdout(Stdio::piped()).spawn().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_program_provides_tools_and_takes_them_away() {
    let nats = Nats::start(&[]).await;
    let mut ears = Ears::at(&nats.url).await;
    let mut first = example(&nats.url);
    ears.hears(&["desk"]).await;
    let desk = ears.connect("desk").await;
    assert_eq!(names(&desk).await, ["count_words", "ring"]);
    assert_eq!(text(&desk, "count_words", json!({"text": "one two  three"})).await, "3");
    let wrong = call(&desk, "count_words", json!({})).await.unwrap();
    assert!(wrong.is_error && wrong.to_text().contains("text is missing"));

    // A second instance shares the calls, and keeps the tools when the first one ends.
    let mut second = example(&nats.url);
    let mut said = std::io::BufReader::new(second.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.starts_with("providing desk")));
    assert!(Command::new("kill").arg(first.0.id().to_string()).status().unwrap().success());
    first.0.wait().unwrap();
    assert_eq!(text(&desk, "count_words", json!({"text": "one"})).await, "1");

    // An abandoned call is cancelled in the provider.
    let long = call(&desk, "ring", json!({"seconds": 30}));
    assert!(tokio::time::timeout(Duration::from_millis(300), long).await.is_err());
    assert!(said.any(|line| line.starts_with("cancelled ")));

    assert!(Command::new("kill").arg(second.0.id().to_string()).status().unwrap().success());
    second.0.wait().unwrap();
    ears.hears(&[]).await;
    let gone = tokio::time::timeout(Duration::from_secs(2), desk.closed()).await.unwrap();
    assert!(gone.contains("is gone"), "{gone}");
    let begun = Instant::now();
    assert_eq!(call(&desk, "ring", json!({})).await.unwrap_err().kind, CallErrorKind::Unavailable);
    println!("a call of a provider that is gone fails after {:?}", begun.elapsed());
    let again = ears.servers.connect(&provider("desk"), Duration::from_secs(5)).await;
    assert_eq!(again.err().unwrap().kind, ConnectErrorKind::Unreachable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn providers_that_were_there_first_are_found_and_changes_are_told() {
    let nats = Nats::start(&[]).await;
    let client = async_nats::connect(&nats.url).await.unwrap();
    let mut asked = client.subscribe("staffai.tools.discover").await.unwrap();
    client.flush().await.unwrap();
    let mut ears = Ears::at(&nats.url).await;
    asked.next().await.unwrap();
    announce(&client, "till", &["count"]).await;
    ears.hears(&["till"]).await;
    let till = ears.connect("till").await;
    let mut changes = till.changes();
    announce(&client, "till", &["count", "pay"]).await;
    tokio::time::timeout(Duration::from_secs(5), changes.changed()).await.unwrap().unwrap();
    assert_eq!(names(&till).await, ["count", "pay"]);
    // A heartbeat of an unknown provider makes the client ask all for their announcements.
    publish(&client, "staffai.tools.heartbeat", &json!({"provider": "late", "instance": "9"})).await;
    tokio::time::timeout(Duration::from_secs(5), asked.next()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_processes_cost_their_own_tools_alone() {
    let nats = Nats::start(&[]).await;
    let client = async_nats::connect(&nats.url).await.unwrap();
    let ears = Ears::beside(&client, &nats.url).await;
    for odd in ["", "7", "{", r#"{"provider":"a.b.>","instance":"1","tools":[]}"#, r#"{"provider":"x","instance":"1"}"#]
    {
        client.publish("staffai.tools.announce", odd.to_owned().into()).await.unwrap();
    }
    for number in 0..200 {
        announce(&client, &format!("p{number}"), &["a"]).await;
    }
    for _ in 0..2_000 {
        client.publish("staffai.tools.announce", vec![b'['; 4_096].into()).await.unwrap();
    }
    until("64 are taken", async || ears.announced.borrow().len() == 64).await;
    let taken: Vec<String> = ears.announced.borrow().iter().map(|entry| entry.name.to_string()).collect();
    let [garbage, deep, long, bare, deaf] = &taken[..5] else { panic!("there are 64") };
    for (name, payload, kind) in [
        (garbage, "no JSON".to_owned(), Some(CallErrorKind::Malformed)),
        (deep, "[".repeat(100_000), Some(CallErrorKind::Malformed)),
        (long, json!({"content": [{"type": "text", "text": "x".repeat(900_000)}]}).to_string(), None),
        (bare, r#""a bare text""#.to_owned(), None),
    ] {
        answers(&client, name, payload).await;
        let server = ears.connect(name).await;
        let result = call(&server, "a", json!({})).await;
        assert_eq!(result.as_ref().err().map(|error| error.kind), kind, "{name}");
        if let Ok(result) = result {
            assert!(result.to_text().len() <= 70_000, "{name}: results are cut");
        }
    }
    let mut cancels = client.subscribe(format!("staffai.tools.cancel.{deaf}")).await.unwrap();
    let mut calls = takes_calls(&client, deaf).await;
    let deaf = ears.connect(deaf).await;
    let short = ToolRequest { deadline: Duration::from_millis(200), ..request("a", json!({"x": 1})) };
    assert_eq!(deaf.call(&short, None).await.unwrap_err().kind, CallErrorKind::Timeout);
    let asked: Value = serde_json::from_slice(&calls.next().await.unwrap().payload).unwrap();
    assert_eq!(
        (&asked["tool"], &asked["arguments"], &asked["deadline_ms"]),
        (&json!("a"), &json!({"x": 1}), &json!(200))
    );
    let cancelled: Value = serde_json::from_slice(&cancels.next().await.unwrap().payload).unwrap();
    assert_eq!(cancelled["call"], asked["call"]);
    let large = call(&deaf, "a", json!({"x": "x".repeat(2_000_000)})).await;
    assert_eq!(large.unwrap_err().kind, CallErrorKind::InvalidArguments);
    // After all that, a withdrawal makes room for an honest provider.
    publish(&client, "staffai.tools.withdraw", &json!({"provider": garbage, "instance": "1"})).await;
    until("one is gone", async || ears.announced.borrow().len() == 63).await;
    announce(&client, "honest", &["a"]).await;
    until("it is heard", async || ears.announced.borrow().iter().any(|entry| entry.name.as_str() == "honest")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_seen_at_once_and_made_again() {
    let mut nats = Nats::start(&[]).await;
    let port = nats.port();
    let client = async_nats::connect(&nats.url).await.unwrap();
    let mut ears = Ears::beside(&client, &nats.url).await;
    announce(&client, "till", &["a"]).await;
    ears.hears(&["till"]).await;
    let till = ears.connect("till").await;
    let _calls = takes_calls(&client, "till").await;
    let waiting = {
        let till = Arc::clone(&till);
        tokio::spawn(async move { call(&till, "a", json!({})).await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    nats.child.kill().unwrap();
    let lost = Instant::now();
    let result = tokio::time::timeout(Duration::from_secs(3), waiting).await.unwrap().unwrap();
    assert_eq!(result.unwrap_err().kind, CallErrorKind::Lost);
    assert!(till.closed().await.contains("lost"));
    let why = tokio::time::timeout(Duration::from_secs(3), &mut ears.listening).await.unwrap().unwrap();
    println!("a killed server was seen after {:?}: {why}", lost.elapsed());
    drop(nats);
    let nats = Nats::start_at(port, &[]).await;
    let ears = Ears::at(&nats.url).await;
    assert!(ears.announced.borrow().is_empty());
}

#[tokio::test]
async fn a_login_is_used_and_a_wrong_one_is_a_clear_line() {
    let nats = Nats::start(&["--user", "bot", "--pass", "hunter2"]).await;
    let with = |login: &str| nats.url.replace("nats://", &format!("nats://{login}")).into();
    assert!(connect(&with("bot:hunter2@")).await.is_ok());
    for login in ["", "bot:wrong@"] {
        let why = connect(&with(login)).await.err().unwrap();
        assert!(why.contains("authorization violation") && !why.contains("wrong"), "{why}");
    }
    assert!(connect(&"nats://127.0.0.1:1".into()).await.is_err());
}
