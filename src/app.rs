//! The story of a run: configuration, edges, tree, wait, drain. The only room that makes a clock or a source of chance.

/// Prints a line. A reader that went away, as `head` does, ends nothing.
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

mod begun;

mod built_ins;

pub mod configured;

mod console;

mod commands;

mod doors;

mod files;

mod keys;

mod demo;

mod mistakes;

#[cfg(feature = "playground")]
mod playground;

pub mod reload;

mod rows;

mod servers;

mod signals;

mod traces;

mod triggers;
mod unlisted;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::sync::watch;
use tokio::time::Instant;

use self::assemble::{Assembled, Launch, StartError};
use self::begun::Begun;
use self::unlisted::Unlisted;
use ::mcp::guardian;
use actors::services::running::Exit;
use actors::tree::TREE;
use actors::wiring::{Drained, Tree};
use ports::{Store, Vitals};
use settings::edges::Threads;

/// How long the store may take to write down what is left when the process ends.
const STORE_WITHIN: Duration = Duration::from_secs(5);

/// How long the end of the tree and that of the store may take together after a drain that used all of its time.
pub const AFTER_DRAIN: Duration = Duration::from_secs(4);

/// How much of that is the store's alone.
const STORE_LEAST: Duration = Duration::from_millis(1_500);
/// Time after which no part needs its start code any more.
const START_SETTLES: Duration = Duration::from_secs(3);

/// An always-on assistant for public communities.
#[derive(Debug, Parser)]
#[command(name = "staffai", version)]
pub struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

/// What may stand before the command and behind it.
#[derive(Debug, Clone, Args)]
struct Options {
    /// A TOML file of settings, in place of staffai.toml; may be given more than once, later ones win.
    #[arg(long = "config", value_name = "FILE")]
    config: Vec<PathBuf>,
    /// The form of log lines: json unless on a terminal.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
}

impl Cli {
    /// The options of both places, in the order in which they were written.
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
    /// The service: answers in Discord until it is told to stop.
    Run(Options),
    /// Everything on this machine alone, with a page to chat on and a demo model. Needs no account.
    Playground {
        /// Shows the log on standard error, in place of the file.
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Tries the configuration, Discord, the model and the store, and says what is wrong; exits 0 or 1.
    Check {
        /// Contacts nobody.
        #[arg(long)]
        offline: bool,
        /// Asks every model row, or those of `LITELLM_MODELS`, not just the default one.
        #[arg(long)]
        models: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Asks for the bot's token and the address of a model, tries both, prints the invite address, and writes .env.
    Init {
        #[command(flatten)]
        of: commands::init::Of,
        #[command(flatten)]
        options: Options,
    },
    /// A conversation in the terminal, with the running service or one of its own.
    Chat {
        #[command(flatten)]
        of: commands::chat::Of,
        #[command(flatten)]
        options: Options,
    },
    /// Asks the running service how it is; exits 0 or 1.
    Health(Options),
    /// Prints the audit of tools, one JSON object a line: calls, questions, decisions, allowances.
    Audit {
        #[command(flatten)]
        of: commands::audit::Of,
        #[command(flatten)]
        options: Options,
    },
    /// Copies everything that is kept into a file, while the service runs or when it does not.
    Backup {
        /// The file; one that is there is replaced.
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Puts such a copy into an empty store. The service must not run.
    Restore {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Prints the supervision tree.
    Tree {
        /// As the block of actors.md.
        #[arg(long)]
        markdown: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Prints the effective configuration and where each value came from, secrets masked.
    Config(Options),
    /// The tools that are configured, or those of any MCP server, and one call by hand.
    Tools {
        #[command(subcommand)]
        action: commands::tools::Action,
    },
    /// The keys of programs that ask over HTTP.
    Key {
        #[command(subcommand)]
        action: commands::key::Action,
    },
    /// The rows of models, and changes of them that hold without a new start.
    Model {
        #[command(subcommand)]
        action: commands::model::Action,
    },
    /// The file of MCP servers.
    Mcp {
        #[command(subcommand)]
        action: commands::mcp::Action,
    },
    /// The playground's example of a tool server; the bot itself starts this.
    #[cfg(feature = "playground")]
    #[command(hide = true)]
    ExampleServer(Options),
    /// The bot of the playground; the playground itself starts this.
    #[cfg(feature = "playground")]
    #[command(hide = true, name = playground::BOT)]
    PlaygroundBot {
        /// Shows the log on standard error, in place of the file.
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Runs a tool server and ends it when the bot is gone; the bot itself starts this.
    #[command(hide = true)]
    Guard {
        /// The server's program and its arguments.
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
            | Self::Playground { options, .. }
            | Self::Init { options, .. }
            | Self::Chat { options, .. }
            | Self::Check { options, .. }
            | Self::Audit { options, .. }
            | Self::Guard { options, .. }
            | Self::Backup { options, .. }
            | Self::Restore { options, .. }
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
    if let Command::Guard { program, .. } = &cli.command {
        return ExitCode::from(guard(program));
    }
    #[cfg(feature = "playground")]
    if matches!(cli.command, Command::ExampleServer(_)) {
        let served = ::playground::example_server::serve();
        return ExitCode::from(if served.is_ok() { exit::FINE } else { exit::NEGATIVE });
    }
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("a cryptography provider was installed twice; this is a defect of the program");
        return ExitCode::from(exit::GAVE_UP);
    }
    let code = match &cli.command {
        // How many threads it has is a setting.
        Command::Run(_) => commands::run(cli),
        _ => on_threads(Threads::Auto, others(cli)),
    };
    ExitCode::from(code)
}

/// Runs a command that has nothing set about its threads.
async fn others(cli: &Cli) -> u8 {
    match &cli.command {
        Command::Init { of, .. } => commands::init::run(cli, of).await,
        Command::Chat { of, .. } => commands::chat::run(cli, of).await,
        Command::Playground { verbose, .. } => playground(cli, *verbose).await,
        #[cfg(feature = "playground")]
        Command::PlaygroundBot { verbose, .. } => Box::pin(playground::bot::run(cli, *verbose)).await,
        Command::Check { offline, models, .. } => {
            commands::check::run(cli, commands::check::Scope { offline: *offline, models: *models }).await
        }
        Command::Health(_) => commands::health(cli).await,
        Command::Audit { of, .. } => commands::audit::run(cli, of).await,
        Command::Backup { file, .. } => commands::backup::make(cli, file).await,
        Command::Restore { file, .. } => commands::backup::restore(cli, file).await,
        Command::Tree { markdown, .. } => commands::tree(*markdown),
        Command::Config(_) => commands::config(cli),
        Command::Tools { action } => commands::tools::run(cli, action).await,
        Command::Key { action } => commands::key::run(cli, action).await,
        Command::Model { action } => commands::model::run(cli, action).await,
        Command::Mcp { action } => commands::mcp::run(cli, action).await,
        // They have runtimes of their own, or need none.
        Command::Run(_) | Command::Guard { .. } => exit::USAGE,
        #[cfg(feature = "playground")]
        Command::ExampleServer(_) => exit::USAGE,
    }
}

/// Runs a command to its end on so many threads. A single one is this thread.
fn on_threads(threads: Threads, command: impl Future<Output = u8>) -> u8 {
    let mut builder = match threads {
        Threads::Count(1) => tokio::runtime::Builder::new_current_thread(),
        Threads::Auto | Threads::Count(_) => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Threads::Count(count @ 2..) = threads {
        builder.worker_threads(count);
    }
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("the asynchronous runtime cannot start: {error}");
            return exit::GAVE_UP;
        }
    };
    let code = runtime.block_on(command);
    // Blocking work that is still under way (a file that hangs) must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

/// Guards one tool server.
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

/// A running program: the tree and what outlives it.
pub struct App {
    tree: Tree,
    store: Arc<dyn Store>,
    vitals: Arc<dyn Vitals>,
    drain: Duration,
    exit: watch::Receiver<Option<Exit>>,
    bound: watch::Receiver<Option<SocketAddr>>,
    /// The names of the configured tool servers.
    servers: Vec<String>,
}

/// Why a running program ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Told,
    /// The root supervisor gave up.
    GaveUp,
    /// A needed service refused us for good.
    Refused(String),
}

impl App {
    /// Builds everything and starts the tree.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(launch: Launch) -> Result<Self, StartError> {
        let drain = launch.settings.drain.timeout;
        let begun = Begun::of(&launch);
        let Assembled { parts, exited: exit, bound } = Box::pin(assemble::assemble(launch)).await?;
        begun.tell(&parts.live.now().version, &parts.doors.names(|_| true));
        let (store, vitals) = (Arc::clone(&parts.store), Arc::clone(&parts.vitals));
        let servers = parts.live.now().servers.entries.iter().map(|entry| entry.name.to_string()).collect();
        let tree = Tree::start(parts).await.map_err(|error| StartError::Tree(error.to_string()))?;
        Ok(Self { tree, store, vitals, drain, exit, bound, servers })
    }

    /// Serves until `told` resolves, the root gives up, or a needed service refuses us for good.
    pub async fn serve(&mut self, told: impl Future<Output = ()>) -> Ended {
        let refused = self.exit.wait_for(Option::is_some);
        tokio::spawn(release_start_pages());
        tokio::select! {
            () = told => Ended::Told,
            () = self.tree.gave_up() => Ended::GaveUp,
            refused = refused => match refused.map(|exit| exit.clone()) {
                Ok(Some(Exit::Refused(reason))) => Ended::Refused(reason),
                Ok(None) | Err(_) => Ended::GaveUp,
            },
        }
    }

    /// Where the pages are, once they can be reached; none when they never will.
    pub fn address(&self) -> impl Future<Output = Option<SocketAddr>> + Send + use<> {
        let mut bound = self.bound.clone();
        async move { bound.wait_for(Option::is_some).await.ok().and_then(|address| *address) }
    }

    /// Returns the configured tool servers whose tools are not known yet.
    #[must_use]
    pub fn unlisted(&self) -> Unlisted {
        Unlisted::of(&self.servers, &self.vitals.tooling())
    }

    /// Reads the configuration again when called.
    pub fn reload(&self) -> impl Fn() + Send + use<> {
        self.tree.reload()
    }

    /// Finishes what is in flight, stops the tree in order, and writes everything down. True when all that was begun is answered.
    pub async fn drain(self) -> bool {
        let Self { tree, store, vitals, drain, .. } = self;
        let end = Deadlines { end: Instant::now() + drain + AFTER_DRAIN };
        let within_ms = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(event = "drain.started", within_ms, "draining");
        let Drained { finished, left } = tree.drain(drain).await;
        tree.stop_within(end.tree(Instant::now())).await;
        vitals.stops();
        let saved = store.close(end.store(Instant::now())).await;
        let words = summary(finished, left, saved);
        tracing::info!(event = "drain.finished", finished, left, saved, "{words}");
        finished
    }

    /// Stops the tree in order and writes everything down, without waiting for turns in flight.
    pub async fn stop(self) {
        self.tree.stop().await;
        self.vitals.stops();
        self.store.close(STORE_WITHIN).await;
    }
}

/// Unmaps the pages of the program's file that only the start needed: most of the memory at rest.
async fn release_start_pages() {
    tokio::time::sleep(START_SETTLES).await;
    match tokio::task::spawn_blocking(clean_pages::release).await {
        Ok(Ok(bytes)) => tracing::debug!(event = "memory.released", bytes, "unmapped pages of the program's file"),
        Ok(Err(error)) => tracing::debug!(event = "memory.released", %error, "cannot unmap the program's file"),
        // The runtime ends.
        Err(_) => {}
    }
}

/// How the time of an orderly end is shared: the tree and the store have all that the drain left over, within bounds.
struct Deadlines {
    end: Instant,
}

impl Deadlines {
    fn tree(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now).saturating_sub(STORE_LEAST).min(TREE.stop_within)
    }

    fn store(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now).clamp(STORE_LEAST, STORE_WITHIN)
    }
}

/// What a drain came to, in words.
const fn summary(finished: bool, left: Option<usize>, saved: bool) -> &'static str {
    match (finished, left, saved) {
        (_, _, false) => "drained; not everything could be written down, and what was not is lost",
        (true, Some(0), true) => "drained; nothing is left",
        (true, _, true) => "drained; what came meanwhile stays in the journal",
        (false, _, true) => "drained; what is left stays in the journal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_tree_and_store_fit_into_the_time_that_runtimes_wait() {
        let begun = Instant::now();
        let drain = Duration::from_secs(25);
        let end = Deadlines { end: begun + drain + AFTER_DRAIN };
        let tree_begins = begun + drain;
        let store_begins = tree_begins + end.tree(tree_begins);
        let all = drain + end.tree(tree_begins) + end.store(store_begins);
        assert!(all < Duration::from_secs(30) && end.tree(tree_begins) > Duration::from_secs(2), "{all:?}");
        assert_eq!(end.store(store_begins), STORE_LEAST);
        assert_eq!((end.tree(begun), end.store(begun)), (TREE.stop_within, STORE_WITHIN), "a short drain leaves more");
    }

    #[test]
    fn nothing_is_said_to_be_left_only_when_all_is_answered_and_saved() {
        let mut said = 0;
        for (finished, left, saved) in
            [(true, Some(0), true), (true, Some(0), false), (false, Some(0), true), (true, None, true)]
        {
            let whole = finished && left == Some(0) && saved;
            assert_eq!(summary(finished, left, saved).contains("nothing is left"), whole);
            said += usize::from(whole);
        }
        assert_eq!(said, 1);
    }
}
