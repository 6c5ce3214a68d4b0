//! Runs simulated lives of the bot and prints their figures.
//!
//! Each life has a process of the operating system for itself: what a library draws at its start, such as the keys of hash
//! maps, then depends on the seed alone.

mod report;
mod runner;

use std::num::NonZero;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use domain::planted::Defect;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use staffai_simulator::life::{self, Wanted};

use self::report::Report;
use self::runner::Runner;

/// Runs simulated lives of the bot, each from one seed.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs many lives. Fails if one of them breaks a promise.
    Run {
        /// The number of lives.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// The number of lives at the same time. Default: one for each processor.
        #[arg(long)]
        jobs: Option<NonZero<usize>>,
        /// Plants a defect, and stops at the first life that finds it.
        #[arg(long, value_parser = defect)]
        planted: Option<Defect>,
    },
    /// Runs one life and prints its events.
    Life {
        /// The seed.
        seed: u64,
        /// The number of actions of members, instead of the seed's own.
        #[arg(long)]
        actions: Option<u64>,
        /// Plants a defect.
        #[arg(long, value_parser = defect)]
        planted: Option<Defect>,
        /// Prints the steps of all actors and ports as well.
        #[arg(long)]
        steps: bool,
        /// Prints one line of JSON instead of events.
        #[arg(long)]
        json: bool,
    },
    /// Looks for the fewest actions with which the life of a seed still breaks a promise.
    Shrink {
        /// The seed.
        seed: u64,
        /// Plants a defect.
        #[arg(long, value_parser = defect)]
        planted: Option<Defect>,
    },
    /// Plants each defect in turn, and prints how many lives it takes until the checker finds it.
    Defects {
        /// The most lives for each defect.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().task {
        Task::Run { seeds, from, jobs, planted } => {
            let runner = Runner { jobs: jobs.unwrap_or_else(runner::processors), planted };
            let report = runner.run(from..from.saturating_add(seeds), Report::default());
            print!("{report}");
            code(report.found() == 0)
        }
        Task::Life { seed, actions, planted, steps, json } => one(&Wanted { seed, actions, planted, steps }, json),
        Task::Shrink { seed, planted } => {
            let runner = Runner { jobs: NonZero::<usize>::MIN, planted };
            match runner.shrink(seed) {
                Some(actions) => println!("staffai-simulator life {seed} --actions {actions}"),
                None => println!("the life of seed {seed} breaks no promise"),
            }
            ExitCode::SUCCESS
        }
        Task::Defects { seeds } => code(runner::defects(seeds)),
    }
}

fn defect(name: &str) -> Result<Defect, String> {
    Defect::named(name)
        .ok_or_else(|| format!("there is none; the names are: {}", Defect::ALL.map(Defect::name).join(", ")))
}

fn code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one life in a new thread, whose hash maps have keys of the seed.
fn one(wanted: &Wanted, json: bool) -> ExitCode {
    mad_turmoil::rand::set_rng(StdRng::seed_from_u64(wanted.seed));
    if !wanted.steps {
        // Panics are a part of life here.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let life = wanted.clone();
    let Ok(outcome) = std::thread::spawn(move || life::run(&life)).join() else {
        println!("the simulator failed");
        return ExitCode::FAILURE;
    };
    if json {
        println!("{}", report::line(&outcome));
    } else {
        outcome.history.iter().for_each(|entry| println!("{entry}"));
        outcome.findings.iter().for_each(|finding| println!("{finding}"));
        println!("hash {:016x}", outcome.hash);
    }
    code(outcome.findings.is_empty())
}
