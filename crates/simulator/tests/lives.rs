//! Simulated lives keep the promises, depend on their seed alone, and find planted defects.
//!
//! `./test simulate --seeds N --from S` runs more lives, in an optimised build.

use std::process::{Command, Output};

/// The number of lives in a test run.
const LIVES: &str = "40";

fn simulator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_staffai-simulator")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn lives_of_many_seeds_keep_every_promise() {
    let run = simulator(&["run", "--seeds", LIVES]);
    let figures = text(&run);
    println!("{figures}");
    assert!(run.status.success(), "a life broke a promise");
    let judged =
        figures.lines().find_map(|line| line.strip_prefix("questions, judged")?.rsplit(", ").next()?.parse().ok());
    assert!(judged.is_some_and(|judged: u64| judged > 500), "most questions are judged");
}

#[test]
fn a_life_is_a_function_of_its_seed() {
    for seed in ["3", "185"] {
        let [one, two] = [0, 1].map(|_| simulator(&["life", seed, "--steps"]).stdout);
        assert!(one.len() > 10_000);
        assert!(one == two, "seed {seed}: the same steps in the same order");
    }
}

/// One defect of each kind of promise. `staffai-simulator defects` plants them all.
#[test]
fn planted_defects_are_found() {
    // A turn that no process adopts is lost, or answered again from the redelivered message.
    let defects = [("no-adoption", ["Answered", "Once"].as_slice()), ("one-more", &["WithinLimits"])];
    for (defect, promises) in defects {
        let run = simulator(&["run", "--seeds", "300", "--planted", defect]);
        let figures = text(&run);
        assert!(
            !run.status.success() && promises.iter().any(|promise| figures.contains(promise)),
            "{defect}:\n{figures}"
        );
    }
}
