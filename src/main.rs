//! Parses the arguments and returns the exit code. `app.rs` implements the run.

use std::process::ExitCode;

use clap::Parser;
use staffai::app::{self, Cli};

/// The global allocator. After bursts of turns, the C library's allocator keeps several times the memory in use; this
/// one returns it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal receives no message.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(app::exit::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    app::main(&cli)
}
