//! Servers that ask each other: two processes, each with a community and a model of its own.

use std::process::Stdio;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::model::{Act, Ask, End};
use crate::process::{Process, program};
use crate::reading_along::{read, submit};
use crate::support::{SOON, Setup, World, own_address, story};

const MODELS: &str =
    r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;

/// A world with models that use tools, and with this name for its server.
async fn server(name: &str) -> World {
    let setup = Setup::new()
        .set("STAFFAI_TURN__DEADLINE", "30s")
        .set("STAFFAI_LLM__TIMEOUT", "20s")
        .set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")
        // No status is posted while an answer is awaited.
        .set("STAFFAI_STREAMING__HOLD", "30s")
        .set("STAFFAI_STREAMING__HOLD_CHARACTERS", "10000")
        .set("STAFFAI_AGENTS__NAME", name);
    let world = World::without_bot(setup).await;
    std::fs::write(world.dir.path().join("scripted-models.json"), MODELS).unwrap();
    world
}

/// Creates an API key for another server.
fn key(world: &World, name: &str) -> String {
    let mut command = program(world.dir.path(), &world.variables(&[]));
    let command = command.args(["key", "add", name, "--right", "chat", "--right", "tools"]).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn row(name: &str, url: &str, key: &str) -> String {
    format!("[{{name = '{name}', url = '{url}', key = '{key}', description = 'Knows the tides.'}}]")
}

async fn running(world: &World, peers: &str) -> Process {
    let process = world.spawn_with("server", &[("STAFFAI_PEERS", peers)]);
    let connected = tokio::time::timeout(SOON, world.service.connected(0)).await;
    assert!(connected.is_ok(), "the process did not connect:\n{}", process.output());
    world.becomes("ready").await;
    process
}

/// A model that forwards each question to this server and repeats the answer.
fn hands_on(to: &'static str) -> impl Fn(&Ask) -> Act + Send + Sync + 'static {
    move |ask| match ask.results() {
        results if results.is_empty() => {
            Act::calls(&[("call-1", "agent_call", json!({"agent": to, "text": ask.question()}))])
        }
        results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
    }
}

async fn answer(world: &World, text: &str) -> String {
    world.words_to(world.says("Ada", "general", &format!("@staffai {text}"))).await
}

#[test]
fn a_server_asks_another_one_in_a_session_that_goes_on() {
    story(async {
        let (here, there) = (server("here").await, server("there").await);
        let theirs = key(&there, "here");
        let other = running(&there, "").await;
        let _here = running(&here, &row("tides", &there.http(), &theirs)).await;
        here.model.does(hands_on("tides"));

        let told = answer(&here, "my boat is called Tern").await;
        assert!(told.contains("You said: my boat is called Tern"), "{told}");
        let told = answer(&here, "what is she called?").await;
        assert!(told.contains("You said: what is she called?"), "{told}");
        let talk = there.model.last().talk();
        assert!(talk.contains("my boat is called Tern"), "one session goes on: {talk}");
        assert!(here.model.asks()[0].tools().contains(&"agent_call"));
        assert!(!there.model.last().tools().contains(&"agent_call"), "no row, no tool");

        // Text of another server's model is never a command.
        let told = answer(&here, "!reset").await;
        assert!(told.contains("You said: !reset"), "{told}");

        // A lineage with a wrong signature is rejected.
        let body = json!({"session": "forged", "text": "hello"});
        let lineage =
            json!({"root": "r", "path": ["x"], "budget": {"hops": 9, "calls": 9, "tokens": 9, "ms": 9}, "at": 0});
        let request = reqwest::Client::new().post(format!("{}/api/v1/submit", there.http())).bearer_auth(&theirs);
        let request = request.header("x-staffai-lineage", lineage.to_string());
        let request = request.header("x-staffai-signature", format!("v1={}", "0".repeat(64)));
        let refused = request.json(&body).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["detail"], "the lineage is not signed with this key for this message");
        let logged = there.until("the refusal in the log", || {
            let output = other.output();
            output.lines().find(|line| line.contains("\"agent.refused\"")).map(str::to_owned)
        });
        let logged = logged.await;
        assert!(logged.contains("\"key\":\"here\"") && !logged.contains(&theirs), "{logged}");

        // The callee's draft is shown here as progress.
        there.model.always(Act::streams("High water is at noon.", 4, Duration::from_millis(150), End::Well));
        let message = submit(&here, "one", "when is high water?").await;
        let told = read(&here, "one", 0, &message).await;
        let shown = |event: &&Value| event["text"].as_str().is_some_and(|text| text.starts_with("tides: H"));
        let progress = told.iter().filter(|event| event["event"] == "tool" && event["state"] == "running");
        assert!(progress.filter(shown).count() > 0, "{told:?}");
    });
}

#[test]
fn a_chain_does_not_come_back_and_a_server_that_is_down_is_told_of() {
    story(async {
        let (here, there) = (server("here").await, server("there").await);
        let (theirs, ours) = (key(&there, "here"), key(&here, "there"));
        let back = running(&there, &row("back", &here.http(), &ours)).await;
        let _here = running(&here, &row("tides", &there.http(), &theirs)).await;
        here.model.does(hands_on("tides"));
        there.model.does(hands_on("back"));

        let told = answer(&here, "round and round").await;
        assert!(
            told.contains("back refused it with status 508") && told.contains("came through here before"),
            "{told}"
        );
        assert_eq!(there.model.calls(), 2);

        back.kill();
        let told = answer(&here, "still there?").await;
        assert!(told.contains("tides cannot be reached at present"), "{told}");
        assert!(!told.contains("127.0.0.1"), "{told}");
    });
}

#[test]
fn a_spent_budget_asks_no_server() {
    story(async {
        let here = server("here").await;
        let peers = row("tides", &format!("http://{}", own_address()), "sk-unknown");
        let _here = here.spawn_with("server", &[("STAFFAI_PEERS", &peers), ("STAFFAI_AGENTS__DEPTH", "0")]);
        assert!(tokio::time::timeout(SOON, here.service.connected(0)).await.is_ok());
        here.becomes("ready").await;
        here.model.does(hands_on("tides"));
        let told = answer(&here, "which tide is it?").await;
        assert!(told.contains("its depth is used up"), "{told}");
    });
}
