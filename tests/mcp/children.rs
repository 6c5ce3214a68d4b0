//! Child processes end with their connection or the bot, and see no more of the bot than necessary.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::tool::CallErrorKind;
use ports::ToolServer;
use ports::tools::{ConnectErrorKind, Transport};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, timeout};

use crate::support::{Mark, call, connect, eventually, hostile, hostile_with, root, runs, stdio, text, try_connect};

async fn pids(server: &Arc<dyn ToolServer>) -> Vec<u32> {
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
        "the program no-such-program does not exist; install it, or set command to its full path"
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

/// Returns the processes that a server started: itself, one in its group, one in a group of its own, one without a
/// parent.
async fn forks(server: &Arc<dyn ToolServer>) -> Vec<u32> {
    let pids: Vec<u32> = serde_json::from_str(&text(server, "forks", json!({})).await).unwrap();
    assert!(pids.len() == 4 && pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    pids
}

async fn gone(how: &str, pids: &[u32], mark: &Mark) {
    let begun = Instant::now();
    mark.gone().await;
    println!("row 27: {how}: {} processes and the guardian are gone after {:?}, left 0", pids.len(), begun.elapsed());
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

#[expect(clippy::cast_possible_wrap, reason = "ids of processes are small")]
fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn what_a_server_started_ends_with_it_wherever_it_hid() {
    for how in ["closed", "dropped", "ended by itself", "killed", "stopped"] {
        for mode in ["ok", "stubborn"] {
            let mut entry = hostile(mode);
            let mark = Mark::on(&mut entry);
            let server = connect(&entry).await;
            let pids = forks(&server).await;
            match how {
                "closed" => server.close().await,
                "dropped" => drop(server),
                "ended by itself" => drop(call(&server, "die", json!({})).await),
                "killed" => signal(pids[0], Signal::KILL),
                _ => {
                    signal(pids[0], Signal::STOP);
                    let begun = Instant::now();
                    server.close().await;
                    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
                }
            }
            gone(&format!("a server ({mode}) was {how}"), &pids, &mark).await;
        }
    }
}

#[tokio::test]
async fn a_guardian_that_is_killed_takes_the_group_along() {
    let server = connect(&hostile("stubborn")).await;
    let pids = pids(&server).await;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pids[0])).unwrap();
    let guardian: u32 = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    signal(guardian, Signal::KILL);
    let begun = Instant::now();
    let why = timeout(Duration::from_secs(1), server.closed()).await.unwrap();
    eventually("the group ends", || !pids.iter().any(|pid| runs(*pid))).await;
    println!("row 27: a killed guardian is noticed ({why}) and its group gone after {:?}", begun.elapsed());
}

/// Stands in for a bot that is killed: this test in a process of its own, which starts a server and waits.
async fn be_the_bot(mark: &str) {
    let server = connect(&hostile_with("stubborn", &[(Mark::VARIABLE, mark)])).await;
    println!("pids: {}", serde_json::to_string(&forks(&server).await).unwrap());
    std::future::pending::<()>().await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the process that is the bot is told the mark by its parent")]
async fn a_bot_that_is_killed_leaves_no_process_behind() {
    if let Ok(mark) = std::env::var(Mark::VARIABLE) {
        be_the_bot(&mark).await;
    }
    let mark = Mark::new();
    let mut bot = tokio::process::Command::new(std::env::current_exe().unwrap());
    let test = "children::a_bot_that_is_killed_leaves_no_process_behind";
    bot.args(["--exact", test, "--nocapture"]).env(Mark::VARIABLE, mark.value());
    let mut bot = bot.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(bot.stdout.take().unwrap()).lines();
    let pids: Vec<u32> = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some((_, pids)) = line.split_once("pids: ") {
            break serde_json::from_str(pids).unwrap();
        }
    };
    bot.kill().await.unwrap();
    gone("the bot was killed", &pids, &mark).await;
}

#[tokio::test]
async fn a_server_that_crashes_at_each_start_leaves_nothing_behind() {
    let mut entry = hostile("crash");
    let mark = Mark::on(&mut entry);
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(try_connect(&entry).await.err().unwrap().kind, ConnectErrorKind::Exited);
    }
    let each = begun.elapsed() / 20;
    mark.gone().await;
    println!("row 27: 20 starts that crashed took {each:?} each, processes left: {}", mark.running().len());
}
