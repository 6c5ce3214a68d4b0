//! No child outlives its connection or the bot, and none sees more of the bot than it must.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use staffai::domain::tool::CallErrorKind;
use staffai::ports::tools::{ConnectErrorKind, Transport};
use tokio::time::{Instant, timeout};

use crate::support::{call, connect, eventually, hostile, hostile_with, root, runs, stdio, text, try_connect};

async fn pids(server: &std::sync::Arc<dyn staffai::ports::ToolServer>) -> Vec<u32> {
    let pids: Vec<u32> = serde_json::from_str(&text(server, "pids", json!({})).await).unwrap();
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)));
    pids
}

#[tokio::test]
async fn closing_ends_the_whole_group() {
    let server = connect(&hostile("ok")).await;
    let pids = pids(&server).await;
    let begun = Instant::now();
    server.close().await;
    assert!(!pids.iter().any(|pid| runs(*pid)));
    println!("row 27: closed with a child that ignores SIGTERM in {:?}", begun.elapsed());
}

#[tokio::test]
async fn dropping_ends_the_whole_group() {
    let server = connect(&hostile("ok")).await;
    let pids = pids(&server).await;
    drop(server);
    eventually("the group ends", || !pids.iter().any(|pid| runs(*pid))).await;
}

#[test]
fn the_end_of_the_runtime_ends_the_whole_group() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let pids = runtime.block_on(async {
        let server = connect(&hostile("ok")).await;
        let pids = pids(&server).await;
        std::mem::forget(server);
        pids
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

#[tokio::test]
async fn a_death_is_noticed_and_told_without_secrets() {
    let server = connect(&hostile_with("ok", &[("SECRET", "sesame-open")])).await;
    let begun = Instant::now();
    let error = call(&server, "die", json!({})).await.unwrap_err();
    println!("row 27: a death is told after {:?}: {error}", begun.elapsed());
    assert_eq!(error.kind, CallErrorKind::Lost);
    let why = timeout(Duration::from_secs(1), server.closed()).await.unwrap();
    assert!(why.contains("exit code 3") && why.contains("the disk is full") && !why.contains("sesame"), "{why}");
    let begun = Instant::now();
    assert_eq!(call(&server, "echo", json!({})).await.unwrap_err().kind, CallErrorKind::Lost);
    println!("row 27: a call to a dead server answers in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_millis(50));
}

#[tokio::test]
async fn a_child_sees_only_what_its_entry_says() {
    let server = connect(&hostile_with("ok", &[("OWN", "1")])).await;
    let seen: BTreeMap<String, String> = serde_json::from_str(&text(&server, "environment", json!({})).await).unwrap();
    let names: Vec<&str> = seen.keys().map(String::as_str).filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(names, ["OWN", "PATH"]);
}

#[tokio::test]
async fn usual_mistakes_are_told_apart() {
    let missing = try_connect(&stdio("no-such-program", &[])).await.err().unwrap();
    assert_eq!(missing.kind, ConnectErrorKind::CommandNotFound);
    assert_eq!(
        missing.to_string(),
        "there is no program no-such-program; install it, or write its whole path as command"
    );
    let path = try_connect(&stdio("/no/such/program", &[])).await.err().unwrap();
    assert_eq!(path.kind, ConnectErrorKind::CommandNotFound);
    let data = root().join("Cargo.toml");
    let data = try_connect(&stdio(data.to_str().unwrap(), &[])).await.err().unwrap();
    assert_eq!(data.kind, ConnectErrorKind::NotStarted, "{data}");
    let mut elsewhere = stdio("python3", &[]);
    if let Transport::Stdio(command) = &mut elsewhere.transport {
        command.cwd = Some("/no/such/folder".into());
    }
    let elsewhere = try_connect(&elsewhere).await.err().unwrap();
    assert_eq!(elsewhere.kind, ConnectErrorKind::NotStarted);
    assert!(elsewhere.message.contains("/no/such/folder"), "{elsewhere}");
}
