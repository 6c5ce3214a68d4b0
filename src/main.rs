//! Arguments and exit code; `app.rs` tells the story of a run.

use std::process::ExitCode;

use clap::Parser;
use staffai::app::{self, Cli};

/// Bursts of turns leave the C library's allocator with several times the memory that is in use; this one gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A terminal that is gone takes no message.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(app::exit::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    app::main(&cli)
}
