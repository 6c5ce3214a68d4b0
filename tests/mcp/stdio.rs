//! Hostile servers as child processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::tool::{CallError, CallErrorKind, ToolRequest, TraceParent};
use futures_util::future::join_all;
use parking_lot::Mutex;
use ports::ToolServers;
use ports::tools::ConnectErrorKind;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::{
    CONNECT, GROWN_MAX, call, connect, hostile, names, request, resident, servers, text, try_connect,
    try_connect_within,
};

/// Tolerance of deadlines on the test machine; the promise is 50 ms on an idle one.
const SLACK: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_server_that_hangs_at_any_step_costs_no_more_than_the_deadline() {
    for mode in ["hang-start", "hang-initialize"] {
        let begun = Instant::now();
        let within = Duration::from_secs(3);
        let error = try_connect_within(&hostile(mode), within).await.err().unwrap();
        assert_eq!(error.kind, ConnectErrorKind::Timeout, "{mode}: {error}");
        assert!(begun.elapsed() < within + SLACK, "{mode}: {:?}", begun.elapsed());
    }
    let server = connect(&hostile("hang-ping")).await;
    let begun = Instant::now();
    assert_eq!(server.ping().await.unwrap_err().kind, CallErrorKind::Timeout);
    println!("row 26: a sign of life that does not come is given up after {:?}", begun.elapsed());
    let server = connect(&hostile("hang-list")).await;
    let begun = Instant::now();
    assert_eq!(server.list().await.unwrap_err().kind, CallErrorKind::Timeout);
    println!("row 26: a list that hangs is given up after {:?}", begun.elapsed());
    let server = connect(&hostile("hang-call")).await;
    let deadline = Duration::from_millis(300);
    let begun = Instant::now();
    let hung = ToolRequest { deadline, ..request("echo", json!({})) };
    assert_eq!(server.call(&hung, None).await.unwrap_err().kind, CallErrorKind::Timeout);
    let over = begun.elapsed().saturating_sub(deadline);
    println!("row 26: a call that hangs is given up {over:?} after its deadline");
    assert!(over < SLACK, "{over:?}");
}

#[tokio::test]
async fn an_answer_that_drips_costs_no_more_than_the_deadline() {
    let server = connect(&hostile("ok")).await;
    let deadline = Duration::from_millis(500);
    let begun = Instant::now();
    let dripping = ToolRequest { deadline, ..request("loris", json!({})) };
    assert_eq!(server.call(&dripping, None).await.unwrap_err().kind, CallErrorKind::Timeout);
    println!("row 26: one byte a second is given up {:?} after the deadline", begun.elapsed().saturating_sub(deadline));
    assert!(begun.elapsed() < deadline + SLACK);
}

#[tokio::test]
async fn abandoned_calls_are_cancelled_at_the_server() {
    let server = connect(&hostile("ok")).await;
    let slow = request("slow", json!({"seconds": 1}));
    assert!(timeout(Duration::from_millis(200), server.call(&slow, None)).await.is_err());
    let late = ToolRequest { deadline: Duration::from_millis(200), ..slow };
    assert_eq!(server.call(&late, None).await.unwrap_err().kind, CallErrorKind::Timeout);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let cancelled: Vec<i64> = serde_json::from_str(&text(&server, "cancelled", json!({})).await).unwrap();
    assert_eq!(cancelled.len(), 2, "{cancelled:?}");
    assert_eq!(text(&server, "echo", json!({"text": "next"})).await, "next", "late answers are discarded");
}

#[tokio::test]
async fn progress_is_told() {
    let server = connect(&hostile("ok")).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress: ports::tools::Progress| told.lock().push(progress.done))
    };
    server.call(&request("slow", json!({"seconds": 0})), Some(sink)).await.unwrap();
    assert_eq!(*told.lock(), [0.0, 1.0, 2.0]);
}

#[tokio::test]
async fn noise_wrong_ids_and_doubled_answers_are_ignored() {
    let server = connect(&hostile("ok")).await;
    for round in 0..20 {
        let words = format!("round {round}");
        assert_eq!(text(&server, "noise", json!({"text": words})).await, words);
        assert_eq!(text(&server, "echo", json!({"text": words})).await, words);
    }
    println!("row 31: 40 calls among noise, answers of others 0");
    for (tool, answer) in [("null", ""), ("joined", "joined"), ("latin", "caf\u{fffd}"), ("half", "cut \u{fffd}")] {
        assert_eq!(text(&server, tool, json!({})).await, answer, "{tool}");
    }
}

#[tokio::test]
async fn a_giant_result_is_cut_at_the_source() {
    let server = connect(&hostile("ok")).await;
    let before = resident();
    let result = call(&server, "big", json!({"megabytes": 500})).await.unwrap();
    let after = resident();
    let shown = result.to_text();
    assert!(shown.len() <= 65_536 && shown.starts_with("beginxxx") && shown.contains("xxxend"), "{}", shown.len());
    assert!(result.cut.unwrap().bytes > 500 * 1024 * 1024);
    let grown = after.saturating_sub(before);
    println!("row 29: a result of 500 MB leaves {} KiB more in memory", grown / 1024);
    assert!(grown < GROWN_MAX, "{grown}");
    let blocks = call(&server, "blocks", json!({"thousands": 1_000})).await.unwrap();
    assert!(blocks.to_text().len() <= 65_536 && blocks.cut.is_some());
    let blocks = call(&server, "blocks", json!({"thousands": 100})).await.unwrap();
    assert!(blocks.to_text().contains("more parts left out"));
    let images = call(&server, "images", json!({"count": 20, "bytes": 100_000})).await.unwrap();
    assert_eq!(images.images().count(), 4);
    assert_eq!(text(&server, "echo", json!({"text": "next"})).await, "next");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_of_eight_megabytes_in_millions_of_values_take_bounded_memory() {
    let (before, peak, over) = (resident(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watching = {
        let (peak, over) = (Arc::clone(&peak), Arc::clone(&over));
        std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                peak.fetch_max(resident(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let common = servers();
    let asks = (0..6).map(|index| {
        let common = common.clone();
        async move {
            let server = common.connect(&hostile("ok"), CONNECT).await.unwrap();
            let name = if index % 3 == 2 { "deep" } else { "nodes" };
            let result = call(&server, name, json!({})).await;
            (name, result.map(|result| result.to_text().len()), text(&server, "echo", json!({"text": "next"})).await)
        }
    });
    let answers = join_all(asks).await;
    over.store(true, Ordering::SeqCst);
    watching.join().unwrap();
    let grown = peak.load(Ordering::SeqCst).saturating_sub(before);
    println!("six replies of 8 MB at once took {} KiB at their worst: {answers:?}", grown / 1024);
    for (name, result, next) in answers {
        // On a slow machine, a reply may find no room in time.
        let refused = |error: &CallError| error.message.contains("no memory for its reply");
        assert!(result.as_ref().map_or_else(refused, |shown| *shown <= 65_536), "{name}: {result:?}");
        assert_eq!(next, "next");
    }
    assert!(grown < 2 * GROWN_MAX, "{grown}");
}

#[tokio::test]
async fn a_list_in_any_form_is_read_tool_by_tool() {
    let server = connect(&hostile("bare-list")).await;
    let listing = server.list().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["echo", "plain"]);
    assert_eq!(listing.warnings.len(), 2, "{:?}", listing.warnings);
    let server = connect(&hostile("circle")).await;
    let listing = server.list().await.unwrap();
    assert_eq!((listing.tools.len(), listing.warnings.len()), (1, 2), "{:?}", listing.warnings);
}

#[tokio::test]
async fn an_endless_list_is_capped() {
    let server = connect(&hostile("many")).await;
    let begun = Instant::now();
    let listing = server.list().await.unwrap();
    println!("row 30: {} tools read in {:?}", listing.tools.len(), begun.elapsed());
    assert_eq!(listing.tools.len(), 10_000);
    assert!(listing.warnings[0].contains("has more than the 10000 tools"), "{:?}", listing.warnings);
}

/// Pages without tools were neither counted nor weighed.
#[tokio::test]
async fn pages_without_tools_are_weighed_and_their_marks_are_bounded() {
    let server = connect(&hostile("cursors")).await;
    let listing = server.list().await.unwrap();
    assert!(listing.warnings[0].contains("has a cursor of more than"), "{:?}", listing.warnings);
    let server = connect(&hostile("padded")).await;
    let listing = server.list().await.unwrap();
    assert!(listing.warnings[0].contains("has more than the"), "{:?}", listing.warnings);
}

#[tokio::test]
async fn a_storm_of_changes_is_one_notice() {
    let server = connect(&hostile("storm")).await;
    let mut changes = server.changes();
    tokio::time::sleep(Duration::from_secs(2)).await;
    changes.changed().await.unwrap();
    let count = *changes.borrow_and_update();
    println!("row 30: {count} notices in 2 s were one wake-up");
    assert!(count > 500, "{count}");
    assert_eq!(text(&server, "echo", json!({"text": "calm"})).await, "calm");
}

#[tokio::test]
async fn a_server_that_stops_reading_blocks_no_other() {
    let server = connect(&hostile("deaf")).await;
    let begun = Instant::now();
    let deadline = Duration::from_millis(500);
    let large = json!({"text": "x".repeat(100_000)});
    let calls = (0..20).map(|_| {
        let (server, large) = (Arc::clone(&server), large.clone());
        async move { server.call(&ToolRequest { deadline, ..request("echo", large) }, None).await.unwrap_err().kind }
    });
    assert!(join_all(calls).await.iter().all(|kind| *kind == CallErrorKind::Timeout));
    println!("row 32: 20 calls of 100 kB to a deaf server were given up after {:?}", begun.elapsed());
    assert!(begun.elapsed() < deadline + 4 * SLACK, "{:?}", begun.elapsed());
    let why = timeout(Duration::from_secs(15), server.closed()).await.unwrap();
    println!("row 32: it was ended: {why}");
}

#[tokio::test]
async fn two_hundred_large_calls_at_once_are_all_answered() {
    let server = connect(&hostile("ok")).await;
    let begun = Instant::now();
    let calls = (0..200).map(|index| {
        let server = Arc::clone(&server);
        async move {
            let words = format!("{index}:{}", "x".repeat(64 * 1024 - 10));
            let answer = text(&server, "echo", json!({"text": words})).await;
            answer == words
        }
    });
    let right = join_all(calls).await.into_iter().filter(|right| *right).count();
    println!("row 33: {right} of 200 calls of 64 KB answered in {:?}", begun.elapsed());
    assert_eq!(right, 200);
}

#[tokio::test]
async fn a_server_that_asks_for_anything_gets_nothing() {
    let server = connect(&hostile("ok")).await;
    let answers: Value = serde_json::from_str(&text(&server, "asks", json!({})).await).unwrap();
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    println!("row 37: sampling, roots and elicitation were refused");
}

#[tokio::test]
async fn a_server_that_floods_us_with_requests_is_disconnected_and_fills_no_memory() {
    for mode in ["requests", "requests-deaf"] {
        let (before, begun) = (resident(), Instant::now());
        let why = match try_connect(&hostile(mode)).await {
            Ok(server) => timeout(Duration::from_secs(10), server.closed()).await.expect("it is disconnected"),
            Err(error) => error.to_string(),
        };
        let grown = resident().saturating_sub(before);
        println!("a server of the mode {mode} is gone after {:?}, {} KiB more: {why}", begun.elapsed(), grown / 1024);
        assert!(why.contains("requests") && why.contains("was disconnected"), "{why}");
        assert!(grown < GROWN_MAX, "{grown}");
    }
}

#[tokio::test]
async fn a_server_that_floods_us_with_what_was_not_asked_for_is_disconnected() {
    for mode in ["notices", "changes", "batches", "strangers", "blank", "junk", "endless"] {
        let (before, begun) = (resident(), Instant::now());
        let why = match try_connect(&hostile(mode)).await {
            Ok(server) => timeout(Duration::from_secs(30), server.closed()).await.expect("it is disconnected"),
            Err(error) => error.to_string(),
        };
        let grown = resident().saturating_sub(before);
        println!("a flood of {mode} ends after {:?}, {} KiB more: {why}", begun.elapsed(), grown / 1024);
        assert!(why.contains("without being asked and was disconnected"), "{mode}: {why}");
        assert!(grown < GROWN_MAX, "{grown}");
    }
}

#[tokio::test]
async fn the_span_goes_along() {
    let server = connect(&hostile("ok")).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let traced = ToolRequest { trace: Some(TraceParent(parent.to_owned())), ..request("meta", json!({})) };
    let meta: Value = serde_json::from_str(&server.call(&traced, None).await.unwrap().to_text()).unwrap();
    assert_eq!(meta["traceparent"], parent);
}

#[tokio::test]
async fn servers_of_the_older_generation_connect_despite_any_answer_to_the_newer_handshake() {
    for mode in ["ok", "strict", "silent", "empty", "picky"] {
        let begun = Instant::now();
        let server = connect(&hostile(mode)).await;
        println!("a server that is {mode} about discovery connects in {:?}", begun.elapsed());
        assert!(names(&server).await.contains(&"echo".to_owned()));
        assert_eq!(text(&server, "bare", json!({})).await, r#"{"answer":42}"#);
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_at_the_newer_handshake_gets_the_older_one_next_time() {
    let servers = servers();
    let entry = hostile("stunned");
    let first = servers.connect(&entry, Duration::from_secs(2)).await.err().unwrap();
    assert_eq!(first.kind, ConnectErrorKind::Timeout);
    let second = servers.connect(&entry, CONNECT).await.unwrap();
    assert_eq!(text(&second, "echo", json!({"text": "older"})).await, "older");
    let begun = Instant::now();
    let third = servers.connect(&entry, CONNECT).await.unwrap();
    assert_eq!(text(&third, "echo", json!({"text": "known"})).await, "known");
    println!("a server whose generation is known connects in {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_server_that_ends_at_its_start_says_why() {
    let error = try_connect(&hostile("crash")).await.err().unwrap();
    assert_eq!(error.kind, ConnectErrorKind::Exited);
    assert!(error.message.contains("exit code 2: Error: API_KEY is not set"), "{error}");
}

#[tokio::test]
async fn servers_of_other_revisions_and_of_few_words_connect() {
    for (mode, protocol) in
        [("first-revision", "2024-11-05"), ("unknown-revision", "1999-01-01"), ("shy", "2025-11-25")]
    {
        let server = connect(&hostile(mode)).await;
        assert_eq!(server.info().protocol, protocol);
        assert_eq!(text(&server, "echo", json!({"text": mode})).await, mode);
    }
}

#[tokio::test]
async fn a_process_that_installs_longer_than_its_timeout_is_not_killed_while_it_works() {
    let within = Duration::from_secs(3);
    let begun = Instant::now();
    let server = try_connect_within(&hostile("installs"), within).await.unwrap();
    assert!(begun.elapsed() > within, "{:?}", begun.elapsed());
    assert_eq!(text(&server, "echo", json!({"text": "installed"})).await, "installed");
}
