//! Writes the manual pages and the shell completions of the program: `cargo run --example documents -- FOLDER`.
//!
//! They are made when a release is built, so that the program does not carry the code that makes them.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use staffai::app::Cli;

/// The shells with completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    write(&folder.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "usage: documents FOLDER"))?)
}

/// Writes all files to a folder, which is created if it is missing: `staffai.1` and one page per command, `staffai.bash`,
/// `staffai.fish`, `_staffai`.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let command = visible(&Cli::command());
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut command.clone(), "staffai", folder)?;
    }
    clap_mangen::generate_to(command, folder)
}

/// Returns a command without its hidden subcommands, which only the program itself starts.
fn visible(whole: &Command) -> Command {
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    let mut command = Command::new(kept(whole.get_name()))
        .disable_help_flag(whole.is_disable_help_flag_set())
        .disable_version_flag(whole.is_disable_version_flag_set())
        .disable_help_subcommand(whole.is_disable_help_subcommand_set())
        .args(whole.get_arguments().cloned())
        .subcommands(shown);
    if let Some(about) = whole.get_about() {
        command = command.about(about.clone());
    }
    if let Some(about) = whole.get_long_about() {
        command = command.long_about(about.clone());
    }
    if let Some(version) = whole.get_version() {
        command = command.version(kept(version));
    }
    command.subcommand_required(whole.is_subcommand_required_set())
}

/// Keeps a name until the process ends: clap takes static names only, and there are few.
fn kept(name: &str) -> &'static str {
    name.to_owned().leak()
}
