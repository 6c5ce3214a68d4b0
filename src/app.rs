//! A run of the program: configuration, edges, tree, serving, drain. The only module that creates a clock or a random
//! source.

/// Prints a line. A closed reader, such as `head`, does not end the program.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub mod assemble;
pub mod exit;
pub mod system;

mod backup;

mod built_ins;

pub mod configured;

mod console;

mod commands;

mod doors;

mod files;

mod format;

mod keys;

mod demo;

mod drain;

mod experiments;

mod launch;

mod mistakes;

mod opening;

#[cfg(feature = "playground")]
mod playground;

mod program;

mod programs;

pub mod reload;

mod row_secret;

mod rows;

mod servers;

mod setting_files;

mod signals;

mod standby;

mod start_log;

mod traces;

mod voices;

mod triggers;

mod unlisted;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

pub use self::drain::AFTER_DRAIN;
pub use self::program::{App, Ended};
use ::mcp::guardian;
use settings::edges::Threads;

/// An always-on assistant for public communities.
#[derive(Debug, Parser)]
#[command(name = "staffai", version, args = generated())]
#[command(disable_help_flag = true, disable_version_flag = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

/// Returns the options that the parser would add itself, described in the form of all others.
fn generated() -> [Arg; 2] {
    let option = |name: &'static str, short, about: &'static str, action| {
        Arg::new(name).short(short).long(name).help(about).action(action).display_order(1_000)
    };
    [
        option("help", 'h', "Prints help; --help prints more than -h", ArgAction::Help).global(true),
        option("version", 'V', "Prints the version", ArgAction::Version),
    ]
}

/// The options accepted before and after the command.
#[derive(Debug, Clone, Args)]
struct Options {
    /// A TOML settings file, in place of staffai.toml. Can be repeated; later files take precedence.
    #[arg(long = "config", value_name = "FILE")]
    config: Vec<PathBuf>,
    /// The format of log lines. Default: `LOG_FORMAT`, else pretty on a terminal and json otherwise.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
}

impl Cli {
    /// Returns the options of both positions, in the order in which they were written.
    fn options(&self) -> Options {
        let (before, behind) = (&self.options, self.command.options());
        let config = before.config.iter().chain(&behind.config).cloned().collect();
        Options { config, log_format: behind.log_format.or(before.log_format) }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Pretty,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the service until it is stopped: answers in Discord, in Slack, to programs over HTTP, and over NATS.
    Run(Options),
    /// Runs everything on this machine, with a chat page and a demo model. Needs no account.
    ///
    /// The page is at `http://127.0.0.1:8420/`, or at the address in `STAFFAI_HTTP_ADDR`. The data is in `data/playground`,
    /// or in the folder `playground` of `STAFFAI_DATA_DIR`.
    Playground {
        /// Prints the log to standard error instead of the file.
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Checks the configuration, the store, Discord, Slack, models and tool servers, and prints each problem. Exits
    /// with 1 if there is one.
    Check {
        /// Contacts no service.
        #[arg(long)]
        offline: bool,
        /// Checks every model row, or the rows of `LITELLM_MODELS`, not only the default row.
        #[arg(long)]
        models: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Asks for the bot's token and a model's address, tests both, prints the invite link, and writes .env.
    Init {
        #[command(flatten)]
        of: commands::init::Of,
        #[command(flatten)]
        options: Options,
    },
    /// Opens a conversation in the terminal, with the running service or with one of its own.
    Chat {
        #[command(flatten)]
        of: commands::chat::Of,
        #[command(flatten)]
        options: Options,
    },
    /// Prints the health of the running service. Exits with 1 if it is not healthy.
    Health(Options),
    /// Prints the audit log of tools, one JSON object per line: calls, approval requests, decisions, allowances.
    Audit {
        #[command(flatten)]
        of: commands::audit::Of,
        #[command(flatten)]
        options: Options,
    },
    /// Sends recorded questions to two model rows or prompts, and prints both answers to each.
    Replay {
        #[command(flatten)]
        of: commands::replay::Of,
        #[command(flatten)]
        options: Options,
    },
    /// Copies all stored data to a file, also while the service runs.
    Backup {
        /// The file, or - for the standard output. An existing regular file is replaced.
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Restores a backup into an empty store. The service must be stopped.
    Restore {
        /// The file to restore.
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Copies all stored data from the embedded store to Redis, or back. The service must be stopped.
    Migrate {
        /// The store that receives the data. Default: the empty one.
        to: Option<commands::migrate::Destination>,
        #[command(flatten)]
        options: Options,
    },
    /// Prints the processes that share one Redis, which ones are active, their ranges, and the fencing tokens of
    /// doors.
    Cluster(Options),
    /// Prints the supervision tree.
    Tree {
        /// Prints the block of actors.md.
        #[arg(long)]
        markdown: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Prints the effective configuration and the source of each value. Secrets are masked.
    Config(Options),
    /// Lists, shows and calls tools: the configured ones, or those of any MCP server.
    Tools {
        #[command(subcommand)]
        action: commands::tools::Action,
    },
    /// Adds, lists and revokes API keys of client programs.
    Key {
        #[command(subcommand)]
        action: commands::key::Action,
    },
    /// Lists the model rows and changes them without a restart.
    Model {
        #[command(subcommand)]
        action: commands::model::Action,
    },
    /// Adds tool servers to mcp.json, and logs in to them.
    Mcp {
        #[command(subcommand)]
        action: commands::mcp::Action,
    },
    /// Prints the help of a command.
    Help {
        /// The command, such as `key add`. Default: all commands.
        path: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Runs the playground's example tool server. Started by the bot itself.
    #[cfg(feature = "playground")]
    #[command(hide = true)]
    ExampleServer(Options),
    /// Runs the bot of the playground. Started by the playground itself.
    #[cfg(feature = "playground")]
    #[command(hide = true, name = playground::BOT)]
    PlaygroundBot {
        /// Prints the log to standard error instead of the file.
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Reads one document of standard input and prints its text as JSON. Started by the bot itself.
    #[command(hide = true, name = documents::child::COMMAND)]
    ReadDocument {
        /// The most characters of text.
        characters: usize,
        #[command(flatten)]
        options: Options,
    },
    /// Runs a tool server and ends it when the bot has terminated. Started by the bot itself.
    #[command(hide = true)]
    Guard {
        /// The program of the server and its arguments.
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
        #[command(flatten)]
        options: Options,
    },
}

impl Command {
    fn options(&self) -> &Options {
        match self {
            Self::Run(options)
            | Self::Health(options)
            | Self::Config(options)
            | Self::Cluster(options)
            | Self::Playground { options, .. }
            | Self::Init { options, .. }
            | Self::Chat { options, .. }
            | Self::Check { options, .. }
            | Self::Audit { options, .. }
            | Self::Replay { options, .. }
            | Self::Guard { options, .. }
            | Self::ReadDocument { options, .. }
            | Self::Backup { options, .. }
            | Self::Restore { options, .. }
            | Self::Migrate { options, .. }
            | Self::Help { options, .. }
            | Self::Tree { options, .. } => options,
            #[cfg(feature = "playground")]
            Self::ExampleServer(options) | Self::PlaygroundBot { options, .. } => options,
            Self::Tools { action } => action.options(),
            Self::Key { action } => action.options(),
            Self::Model { action } => action.options(),
            Self::Mcp { action } => action.options(),
        }
    }
}

/// Runs one command and gives the process its exit code.
pub fn main(cli: &Cli) -> ExitCode {
    let code = match &cli.command {
        Command::Help { path, .. } => help(path),
        Command::Guard { program, .. } => guard(program),
        Command::ReadDocument { characters, .. } => of_child(&documents::child::run(*characters)),
        #[cfg(feature = "playground")]
        Command::ExampleServer(_) => of_child(&::playground::example_server::serve()),
        // A setting gives the number of threads.
        Command::Run(_) => with_cryptography(|| commands::run(cli)),
        Command::Init { of, .. } => hosted(commands::init::run(cli, of)),
        Command::Chat { of, .. } => hosted(commands::chat::run(cli, of)),
        Command::Playground { verbose, .. } => hosted(playground(cli, *verbose)),
        #[cfg(feature = "playground")]
        Command::PlaygroundBot { verbose, .. } => hosted(playground::bot::run(cli, *verbose)),
        Command::Check { offline, models, .. } => {
            hosted(commands::check::run(cli, commands::check::Scope { offline: *offline, models: *models }))
        }
        Command::Health(_) => hosted(commands::health(cli)),
        Command::Audit { of, .. } => hosted(commands::audit::run(cli, of)),
        Command::Replay { of, .. } => hosted(commands::replay::run(cli, of)),
        Command::Backup { file, .. } => hosted(commands::backup::make(cli, file)),
        Command::Restore { file, .. } => hosted(commands::backup::restore(cli, file)),
        Command::Migrate { to, .. } => hosted(commands::migrate::run(cli, *to)),
        Command::Cluster(_) => hosted(commands::cluster::run(cli)),
        Command::Tree { markdown, .. } => commands::tree(*markdown),
        Command::Config(_) => commands::config(cli),
        Command::Tools { action } => hosted(commands::tools::run(cli, action)),
        Command::Key { action } => hosted(commands::key::run(cli, action)),
        Command::Model { action } => hosted(commands::model::run(cli, action)),
        Command::Mcp { action } => hosted(commands::mcp::run(cli, action)),
    };
    ExitCode::from(code)
}

/// Prints the help of the command with this path.
fn help(path: &[String]) -> u8 {
    let mut all = Cli::command();
    all.build();
    let mut command = &mut all;
    for name in path {
        let Some(found) = command.find_subcommand_mut(name) else {
            eprintln!("there is no command {name}; staffai --help lists them");
            return exit::USAGE;
        };
        command = found;
    }
    say!("{}", command.render_long_help().to_string().trim_end());
    exit::FINE
}

/// Returns the exit code of a child process that serves its parent alone.
fn of_child<T, E>(result: &Result<T, E>) -> u8 {
    if result.is_ok() { exit::FINE } else { exit::NEGATIVE }
}

/// Runs a command that may open encrypted connections.
fn with_cryptography(command: impl FnOnce() -> u8) -> u8 {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("a cryptography provider was installed twice; this is a defect of the program");
        return exit::GAVE_UP;
    }
    command()
}

/// Runs a command whose number of threads is not configurable.
fn hosted(command: impl Future<Output = u8>) -> u8 {
    with_cryptography(|| on_threads(Threads::Auto, command))
}

/// The most steps of tasks between two looks at the sockets and timers. With the default of 61, the answer of one client
/// would wait for that many steps of the others.
const EVENT_INTERVAL: u32 = 8;

/// Runs a command to completion on the given number of threads. A single thread is the current one.
fn on_threads(threads: Threads, command: impl Future<Output = u8>) -> u8 {
    let mut builder = match threads {
        Threads::Count(1) => tokio::runtime::Builder::new_current_thread(),
        Threads::Auto | Threads::Count(_) => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Threads::Count(count @ 2..) = threads {
        builder.worker_threads(count);
    }
    builder.event_interval(EVENT_INTERVAL);
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the asynchronous runtime cannot start: {error}");
            return exit::GAVE_UP;
        }
    };
    let code = runtime.block_on(command);
    // Pending blocking work, such as a file that hangs, must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

/// Guards one tool server: ends it when the bot has terminated.
fn guard(program: &[OsString]) -> u8 {
    let Some((program, args)) = program.split_first() else { return exit::USAGE };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| runtime.block_on(guardian::run(program, args)));
    ended.unwrap_or_else(|error| {
        eprintln!("{}: {error}", program.display());
        exit::NEGATIVE
    })
}

#[cfg(feature = "playground")]
async fn playground(cli: &Cli, verbose: bool) -> u8 {
    playground::run(cli, verbose).await
}

#[cfg(not(feature = "playground"))]
async fn playground(_cli: &Cli, _verbose: bool) -> u8 {
    eprintln!("the playground is not in this build; build with the feature playground, which is on by default");
    std::future::ready(exit::USAGE).await
}
