//! The official conformance suite of the protocol (npm `@modelcontextprotocol/conformance`), with this program as the
//! client: each scenario runs by its own command, and its exit code counts. `client.py` drives the program as an
//! operator does.

use std::collections::BTreeMap;
use std::process::Stdio;

use futures_util::StreamExt;
use tokio::process::Command;

use crate::support::{node, python, root};

/// Maximum number of concurrent scenarios.
const AT_ONCE: usize = 2;
/// Measures a pause to 200 ms, so it runs alone, and is repeated on a loaded machine.
const MEASURED: &str = "sse-retry";
const MEASURED_TIMES: usize = 4;
/// Timeout of a scenario, in milliseconds.
const SCENARIO_MS: &str = "90000";

fn suite(arguments: &[&str]) -> Command {
    let hooks = root().join("tests/mcp/conformance/hooks.mjs");
    let mut suite = Command::new("node");
    suite.arg("--import").arg(hooks).arg(node("@modelcontextprotocol/conformance/dist/index.js")).args(arguments);
    suite.env("STAFFAI_PROGRAM", env!("CARGO_BIN_EXE_staffai")).stdin(Stdio::null()).kill_on_drop(true);
    suite
}

/// Returns the names of all scenarios for clients.
async fn scenarios() -> Vec<String> {
    let listed = suite(&["list"]).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let clients = listed.lines().skip_while(|line| !line.starts_with("Client scenarios")).skip(1);
    let names = clients.map_while(|line| line.trim_start().strip_prefix("- "));
    names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Returns the scenarios that are expected to fail, each with its reason.
fn expected() -> BTreeMap<String, String> {
    let file = root().join("tests/mcp/conformance/expected-failures.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Runs a scenario; returns its output if it failed.
async fn failure(scenario: &str) -> Option<String> {
    let client = format!("{} {}", python("python3"), root().join("tests/mcp/conformance/client.py").display());
    let arguments = ["client", "--command", &client, "--scenario", scenario, "--timeout", SCENARIO_MS];
    let done = suite(&arguments).output().await.unwrap();
    let words = || format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    (!done.status.success()).then(words)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_scenarios_of_the_conformance_suite_pass_but_those_of_what_is_not_offered() {
    let (scenarios, expected) = (scenarios().await, expected());
    assert!(scenarios.len() >= 48, "{scenarios:?}");
    for name in expected.keys() {
        assert!(scenarios.contains(name), "{name} is no scenario");
    }
    let others = scenarios.iter().filter(|name| *name != MEASURED);
    let ran = futures_util::stream::iter(others.map(|name| async move { (name.as_str(), failure(name).await) }));
    let mut ran: BTreeMap<_, _> = ran.buffer_unordered(AT_ONCE).collect().await;
    for _ in 0..MEASURED_TIMES {
        let failed = failure(MEASURED).await;
        let passed = failed.is_none();
        ran.insert(MEASURED, failed);
        if passed {
            break;
        }
    }
    let mut wrong = Vec::new();
    for (name, failed) in &ran {
        let reason = expected.get(*name);
        println!("| {name} | {} |", reason.map_or("passes", String::as_str));
        match (failed, reason) {
            (Some(words), None) => wrong.push(format!("{name} fails:\n{words}")),
            (None, Some(_)) => wrong.push(format!("{name} passes: take it out of the list of expected failures")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
