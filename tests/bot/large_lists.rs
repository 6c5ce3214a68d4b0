//! Lists of tools that expand to gigabytes by references and patterns: their effect on the memory of the program, as a
//! process of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use ports::{Store, Write};
use serde_json::{Value, json};
use staffai::app::system::SystemClock;
use store::embedded::opener::Opener;
use store::resilient::Resilient;
use tokio::time::Instant;

use crate::model::Act;
use crate::process::Process;
use crate::providers::{Nats, free_port};
use crate::support::{Setup, World, story};

/// Number of tools in the list: 1.6 MB as sent.
const TOOLS: usize = 300;
/// Maximum memory of the program with them, in a test build. Without bounds these lists took 960 MB and more.
const PEAK_MAX: u64 = 400 * 1024 * 1024;

#[expect(clippy::disallowed_methods, reason = "children need the path of the machine that the tests run on")]
fn setup() -> Setup {
    Setup::new().set("PATH", std::env::var("PATH").unwrap())
}

/// Returns the peak memory of a process, in bytes.
fn peak(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Waits until a tool is offered: a list of this size takes a while in a test build.
async fn offered(world: &World, tool: &str, process: &Process) {
    let until = Instant::now() + Duration::from_secs(40);
    while !world.tells("Ada", "tools", &[]).await.contains(tool) {
        assert!(Instant::now() < until, "{tool} is not offered:\n{}", process.output());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn takes_little(process: &Process, when: &str) {
    let peak = peak(process);
    println!("{when}: at most {} MiB", peak / 1024 / 1024);
    assert!(peak < PEAK_MAX, "{when}: {peak} bytes");
}

/// Calls tools of a list, so that their argument schemas are compiled.
async fn calls(world: &World, prefix: &'static str) {
    for first in [0, 8, 16] {
        world.model.does(move |ask| {
            if !ask.results().is_empty() {
                return Act::says("done");
            }
            let calls: Vec<(String, String)> =
                (first..first + 8).map(|n| (format!("call-{n}"), format!("{prefix}__tool_{n:03}"))).collect();
            let calls: Vec<(&str, &str, Value)> =
                calls.iter().map(|(id, name)| (&**id, &**name, json!({"a0": {"p0": 7}}))).collect();
            Act::calls(&calls)
        });
        let said = world.says("Ada", "general", "@staffai try them all");
        assert_eq!(world.words_to(said).await, "done");
    }
    world.model.always(Act::says("hello"));
}

/// Stores a list as the previous version would have, in the record of a server.
async fn store_list(world: &World, server: &str) {
    let rows = world.stored().await;
    let (key, record) = rows.iter().find(|(key, _)| key.ends_with(&format!("tools:{server}"))).expect("a record");
    let mut record: Value = serde_json::from_str(record).unwrap();
    let one = record["tools"][0].clone();
    let tools = (0..TOOLS).map(|number| {
        let mut tool = one.clone();
        tool["name"] = json!(format!("tool_{number:03}"));
        tool["description"] = json!(format!("does tool_{number:03}"));
        tool
    });
    record["tools"] = tools.collect();
    let value = record.to_string();
    assert!((1_000_000..3_000_000).contains(&value.len()), "{}", value.len());
    let data = world.dir.path().join("data");
    let opener = Opener::new(&data, Arc::new(SystemClock));
    let store = Resilient::start(move || opener.open(), Arc::new(SystemClock)).await.unwrap();
    assert!(store.write(vec![Write::Put { key: key.clone(), value, ttl: None }]).await);
    store.close(Duration::from_secs(10)).await;
}

#[test]
fn a_list_that_expands_to_gigabytes_takes_little_memory_also_from_the_store_with_its_server_away() {
    story(async {
        let world = World::without_bot(setup()).await;
        let folder = world.dir.path();
        let server = folder.join("server.py");
        let hostile = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/servers/hostile.py");
        std::fs::copy(&hostile, &server).unwrap();
        std::fs::write(folder.join("bombs"), "3").unwrap();
        let servers = json!({"mcpServers": {"bomb": {"command": "python3", "args": [server, "bomb"]}}});
        std::fs::write(folder.join("mcp.json"), servers.to_string()).unwrap();
        let mut process = world.process("small").await;
        offered(&world, "bomb__tool_002", &process).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        process.terminate();
        assert_eq!(process.exit(Duration::from_secs(20)).await, 0);

        store_list(&world, "bomb").await;
        std::fs::remove_file(&server).unwrap();
        let mut process = world.process("stored").await;
        offered(&world, "bomb__tool_000", &process).await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        takes_little(&process, "the stored list, its server away");
        process.terminate();
        assert_eq!(process.exit(Duration::from_secs(20)).await, 0);

        std::fs::write(folder.join("bombs"), TOOLS.to_string()).unwrap();
        std::fs::copy(&hostile, &server).unwrap();
        let process = world.process("whole").await;
        offered(&world, "bomb__tool_000", &process).await;
        world.until("the rest is refused", || process.output().contains("too large together").then_some(())).await;
        calls(&world, "bomb").await;
        takes_little(&process, "the list as it is read, and calls of its tools");
    });
}

/// An announcement of about 550 kB.
fn announcement(provider: &str) -> String {
    let leaf = |n: usize| json!({"type": "string", "pattern": format!("^(\\w{{1,20}}|{n}){{1,9}}$")});
    let many: serde_json::Map<String, Value> = (0..40).map(|n| (format!("p{n}"), leaf(n))).collect();
    let properties: serde_json::Map<String, Value> =
        (0..60).map(|n| (format!("a{n}"), json!({"$ref": "#/$defs/many"}))).collect();
    let schema =
        json!({"type": "object", "properties": properties, "$defs": {"many": {"type": "object", "properties": many}}});
    let tools: Vec<Value> = (0..120).map(|n| json!({"name": format!("tool_{n:03}"), "inputSchema": schema})).collect();
    json!({"provider": provider, "instance": "1", "tools": tools}).to_string()
}

#[test]
fn announcements_that_expand_to_gigabytes_take_little_memory_one_or_many_and_after_a_restart() {
    story(async {
        let port = free_port();
        let url = format!("nats://127.0.0.1:{port}");
        let _nats = Nats::start(port);
        let client = async_nats::ConnectOptions::new().retry_on_initial_connect().connect(&url).await.unwrap();
        let mut asked = client.subscribe("staffai.tools.discover").await.unwrap();
        client.flush().await.unwrap();
        let world = World::without_bot(setup().set("STAFFAI_NATS_URL", url)).await;
        let announce = async |payload: String| client.publish("staffai.tools.announce", payload.into()).await.unwrap();
        // A silent process counts as gone, so nothing of the first ones is awaited after the last.
        let many = async |process: &Process| {
            for number in 1..64 {
                announce(announcement(&format!("p{number:02}"))).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let full = || process.output().contains("the tools of all providers take").then_some(());
            world.until("the rest is not taken", full).await;
        };
        let process = world.process("one").await;
        let one = announcement("p00");
        assert!((500_000..700_000).contains(&one.len()), "{}", one.len());
        announce(one).await;
        offered(&world, "p00__tool_000", &process).await;
        calls(&world, "p00").await;
        takes_little(&process, "one announcement, and calls of its tools");

        many(&process).await;
        takes_little(&process, "64 announcements");
        process.kill();

        while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(50), asked.next()).await {}
        let process = world.process("two").await;
        asked.next().await.expect("the program asks who is there");
        announce(announcement("p00")).await;
        offered(&world, "p00__tool_000", &process).await;
        many(&process).await;
        takes_little(&process, "64 announcements after a restart");
    });
}
