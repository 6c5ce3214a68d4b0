//! The playground's output at its start, and its log file.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::browser::Running;
use crate::program;

/// Returns the events of log lines.
fn events(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["event"].as_str().map(str::to_owned)).collect()
}

#[test]
fn three_lines_say_what_runs_where_the_log_is_and_the_address() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = program(home.path(), &[("STAFFAI_LLM__LOCAL_PORTS", "")]);
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program"));
    let mut lines = BufReader::new(running.0.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let told: Vec<String> = lines.by_ref().take(3).collect();
    assert!(told[0].contains("demo model") && told[0].contains("Ctrl-C"), "{told:?}");
    assert_eq!(told[1], "log: data/playground/playground.log; -v shows it here");
    let address = told[2].strip_prefix("open http://127.0.0.1:").expect("the address stands last");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let stopped = std::process::Command::new("kill").arg("-TERM").arg(running.0.id().to_string()).status();
    assert!(stopped.expect("a signal").success());
    assert_eq!(lines.collect::<Vec<_>>(), Vec::<String>::new(), "nothing follows the address");
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut running.0.stderr.take().expect("its errors"), &mut errors).expect("text");
    assert_eq!(errors, "");
    let log = std::fs::read_to_string(home.path().join("data/playground/playground.log")).expect("the log");
    let listening: Vec<&str> = log.lines().filter(|line| line.contains("api.listening")).collect();
    assert!(listening.len() == 1 && listening[0].contains(address.trim_end_matches('/')), "{listening:?}");
    assert!(events(&log).iter().any(|event| event == "gateway.ready"), "both processes log there");
}

#[test]
fn with_v_the_log_is_shown_and_no_file_is_written() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = program(home.path(), &[]);
    let mut running =
        Running(command.arg("-v").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program"));
    let log = BufReader::new(running.0.stderr.take().expect("its log")).lines().map_while(Result::ok);
    assert!(log.into_iter().any(|line| events(&line).iter().any(|event| event == "gateway.ready")), "the bot's, too");
    assert!(!home.path().join("data/playground/playground.log").exists());
    let mut lines = BufReader::new(running.0.stdout.take().expect("its output")).lines().map_while(Result::ok);
    assert!(lines.nth(1).is_some_and(|line| line == "log: on standard error"));
}
