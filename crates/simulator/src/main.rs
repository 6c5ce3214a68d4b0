//! Runs simulated lives of the bot, and prints what they found.

use std::process::ExitCode;

use clap::Parser;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use staffai_simulator::life;

/// Runs simulated lives of the bot, each from one seed.
#[derive(Debug, Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Prints all events of each life.
    #[arg(long)]
    history: bool,
    /// Prints each event of the hash.
    #[arg(long)]
    traces: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    mad_turmoil::rand::set_rng(StdRng::seed_from_u64(arguments.from));
    std::panic::set_hook(Box::new(|_| {}));
    let mut failed = 0;
    for seed in arguments.from..arguments.from + arguments.seeds {
        let outcome = std::thread::spawn(move || life::run(seed, arguments.traces)).join();
        let Ok(outcome) = outcome else {
            println!("seed {seed}: the simulator panicked");
            failed += 1;
            continue;
        };
        if arguments.history {
            outcome.history.iter().for_each(|entry| println!("{entry}"));
        }
        failed += u64::from(!outcome.findings.is_empty());
        println!(
            "seed {seed}: {} questions, {} processes, {} s, hash {:016x}, {} findings",
            outcome.questions,
            outcome.processes,
            outcome.simulated / 1000,
            outcome.hash,
            outcome.findings.len()
        );
        outcome.findings.iter().for_each(|finding| println!("  {finding}"));
    }
    println!("{} lives, {failed} with findings", arguments.seeds);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
