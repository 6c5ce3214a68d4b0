//! The commands of the program.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderValue, SERVER};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

use super::assemble::{Launch, StartError};
use super::reload::{Configured, Lookup, Watched};
use super::signals::{Ends, Hangups};
use super::system::{SystemClock, SystemDice};
use super::traces::{self, Traces};
use super::{App, Cli, Ended, Format, Options, STORE_WITHIN, exit, mistakes, models};
use actors::tree;
use domain::command::Tooling;
use ports::NoFaults;
use settings::problem::Problem;
use settings::sources::{CONFIG_FILE, ENV_FILE, Sources};
use settings::{self, Examined, Loaded, Settings, edges, show};
#[cfg(feature = "playground")]
use telemetry::log_file::LogFile;
use telemetry::{self, LogFormat, LogGuard, LogOptions, Redaction, TurnLines};
use web::api;

/// How long the running service may take to answer.
const HEALTH_WITHIN: Duration = Duration::from_secs(5);

/// The service.
pub fn run(cli: &Cli) -> u8 {
    let reading = Reading::new(cli, |sources| sources).needing(Settings::require_for_run);
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    super::on_threads(loaded.settings.runtime.threads, async {
        let Ok(log) = log(&loaded, &reading, LogTo::Stdout) else { return exit::USAGE };
        let code = serve(launch(loaded, reading, None), async |address| {
            tracing::info!(event = "service.started", %address, "the pages are at http://{address}/");
        })
        .await;
        log.close().await;
        code
    })
}

/// Asks the running service how it is.
pub async fn health(cli: &Cli) -> u8 {
    // Only the address matters here: a mistake elsewhere must not make a container restart a service that runs well.
    let Examined { loaded, problems, .. } = Reading::new(cli, |sources| sources).examine();
    let concerned: Vec<_> = problems.iter().filter(|problem| problem.key.starts_with("http.")).collect();
    let Some(loaded) = loaded.filter(|_| concerned.is_empty()) else {
        print_problems(&problems);
        return exit::USAGE;
    };
    let http = &loaded.settings.http;
    match ask_health(http.health_addr.unwrap_or(http.addr)).await {
        Ok(()) => {
            say!("healthy");
            exit::FINE
        }
        Err(why) => {
            say!("not healthy: {why}");
            exit::NEGATIVE
        }
    }
}

/// Where a listener on this address can be reached from this machine.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Whether our own service answers at the configured address that it is healthy; if not, why.
pub(super) async fn ask_health(configured: SocketAddr) -> Result<(), String> {
    ask(configured, "/healthz", None).await.map(drop)
}

/// The servers of tools of our own service, as it shows them at the configured address; if not, why.
pub(super) async fn ask_tooling(settings: &Settings) -> Result<Tooling, String> {
    // Nobody else is told the key.
    ask_health(settings.http.addr).await?;
    let answer = ask(settings.http.addr, "/api/v1/tool_servers", settings.http.api_keys.first()).await?;
    answer.json().await.map_err(|error| root_cause(&error))
}

/// Asks our own service; why it does not answer.
async fn ask(configured: SocketAddr, path: &str, key: Option<&SecretString>) -> Result<reqwest::Response, String> {
    let address = reachable(configured);
    let url = format!("http://{address}{path}");
    let client = reqwest::Client::builder().timeout(HEALTH_WITHIN).no_proxy().build();
    let answer = match client {
        Ok(client) => {
            let request = client.get(&url);
            let key = key.map(ExposeSecret::expose_secret);
            match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            }
            .send()
            .await
        }
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) if answer.headers().get(SERVER) != Some(&HeaderValue::from_static(api::SERVER_NAME)) => {
            Err(format!("what answers at {url} is not staffai"))
        }
        Ok(answer) if answer.status().is_success() => Ok(answer),
        Ok(answer) => Err(format!("{url} answered {}", answer.status())),
        Err(error) => Err(format!("{url} cannot be reached: {}", root_cause(&error))),
    }
}

/// What an error comes down to.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Prints the supervision tree.
pub fn tree(markdown: bool) -> u8 {
    say!("{}", if markdown { tree::markdown() } else { tree::text() }.trim_end());
    exit::FINE
}

/// Prints the effective configuration, and what is wrong with it.
pub fn config(cli: &Cli) -> u8 {
    let Examined { loaded, problems, warnings } = Reading::new(cli, |sources| sources).examine();
    print_warnings(&warnings);
    print_problems(&problems);
    for show::Row { key, value, origin } in loaded.iter().flat_map(show::table) {
        say!("{key} = {value}  # {origin}");
    }
    let rows = loaded.iter().map(|loaded| models::described(&loaded.settings, &lookup(loaded)));
    // What is wrong with the files of rows is for `staffai check` to say.
    for (key, what, origin) in rows.flat_map(Result::unwrap_or_default) {
        say!("model row {key} = {what}  # {origin}");
    }
    if problems.is_empty() { exit::FINE } else { exit::USAGE }
}

pub(super) fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

fn print_problems(problems: &[Problem]) {
    for problem in problems {
        eprintln!("{problem}");
    }
}

/// How a command reads its configuration: at its start, and again at each reload.
#[derive(Clone)]
pub(super) struct Reading {
    config: Vec<PathBuf>,
    format: Option<Format>,
    sources: fn(Sources) -> Sources,
    /// What the log of this command never shows.
    pub redaction: Redaction,
    /// The last lines of its log that name a turn.
    pub lines: TurnLines,
    /// What the command itself sets.
    pub adapt: Arc<dyn Fn(&mut Settings) + Send + Sync>,
    /// What the command cannot do without.
    needs: fn(&Settings) -> Vec<Problem>,
}

impl Reading {
    /// The configuration as the command line names it, its sources changed by `sources`.
    pub fn new(cli: &Cli, sources: fn(Sources) -> Sources) -> Self {
        let (Options { config, log_format: format }, redaction) = (cli.options(), Redaction::default());
        let (lines, adapt) = (TurnLines::default(), Arc::new(|_: &mut Settings| {}));
        Self { config, format, sources, redaction, lines, adapt, needs: |_| Vec::new() }
    }

    /// The same for a command that cannot do without something.
    pub fn needing(self, needs: fn(&Settings) -> Vec<Problem>) -> Self {
        Self { needs, ..self }
    }

    /// Reads it, and stops at no mistake.
    pub fn examine(&self) -> Examined {
        let mut sources = Sources::from_process(self.config.clone());
        if let Some(format) = self.format {
            let format = match format {
                Format::Json => "json",
                Format::Pretty => "pretty",
            };
            sources = sources.with_option("log.format", format);
        }
        let mut examined = settings::examine(&(self.sources)(sources));
        if let Some(loaded) = &mut examined.loaded {
            (self.adapt)(&mut loaded.settings);
        }
        examined
    }

    /// Reads it, or gives every mistake there is: those of the settings, then those of the files and rows that they name.
    fn read(&self) -> Result<Loaded, Vec<String>> {
        let Examined { loaded, mut problems, .. } = self.examine();
        problems.extend(loaded.iter().flat_map(|loaded| (self.needs)(&loaded.settings)));
        match loaded {
            Some(loaded) if problems.is_empty() => Ok(loaded),
            loaded => {
                let more = loaded.iter().flat_map(|loaded| mistakes::sentences(&loaded.settings, &lookup(loaded)));
                Err(problems.iter().map(ToString::to_string).chain(more).collect())
            }
        }
    }

    /// Reads it; when there are mistakes, prints every one, and what is odd beside them.
    pub fn load(&self) -> Result<Loaded, ()> {
        self.read().map_err(|mistakes| {
            print_warnings(&self.examine().warnings);
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
        })
    }

    /// The files to watch, and how they are read again.
    fn watched(self, settings: &Settings) -> Watched {
        let mut files = self.config.clone();
        if files.is_empty() {
            files.push(CONFIG_FILE.into());
        }
        files.push(ENV_FILE.into());
        let redaction = self.redaction.clone();
        let reread = move || self.read().map(|loaded| configured(loaded, redaction.clone()));
        Watched::new(Arc::new(reread), files, settings)
    }
}

fn configured(loaded: Loaded, redaction: Redaction) -> Configured {
    let lookup = lookup(&loaded);
    Configured { settings: loaded.settings, lookup, redaction }
}

/// Variables by name, for files that name one.
pub(super) fn lookup(loaded: &Loaded) -> Lookup {
    let variables = loaded.variables.clone();
    Arc::new(move |name| variables.get(name))
}

/// The log of this process, and its traces.
pub(super) struct Log {
    _lines: LogGuard,
    traces: Traces,
}

impl Log {
    /// Sends the last traces and writes the last lines, for a bounded time.
    pub async fn close(self) {
        self.traces.close().await;
    }
}

/// Where log lines go.
pub(super) enum LogTo {
    /// To standard output.
    Stdout,
    /// To standard error.
    #[cfg(feature = "playground")]
    Stderr,
    /// To a file.
    #[cfg(feature = "playground")]
    File(LogFile),
}

/// Starts the log; prints why it cannot.
#[cfg_attr(
    not(feature = "playground"),
    expect(clippy::needless_pass_by_value, reason = "the playground's file is moved into the log")
)]
pub(super) fn log(loaded: &Loaded, reading: &Reading, to: LogTo) -> Result<Log, ()> {
    let settings = &loaded.settings;
    reading.redaction.add(&secrets(settings));
    let (terminal, out): (bool, Box<dyn std::io::Write + Send>) = match to {
        LogTo::Stdout => (std::io::stdout().is_terminal(), Box::new(std::io::stdout())),
        #[cfg(feature = "playground")]
        LogTo::Stderr => (std::io::stderr().is_terminal(), Box::new(std::io::stderr())),
        #[cfg(feature = "playground")]
        LogTo::File(file) => (false, Box::new(file)),
    };
    let pretty = match settings.log.format {
        edges::LogFormat::Json => false,
        edges::LogFormat::Pretty => true,
        edges::LogFormat::Auto => terminal,
    };
    let traces::Started { layer, traces, warning } = traces::start(&settings.telemetry, &reading.redaction);
    let options = LogOptions {
        filter: settings.log.level.clone(),
        format: if pretty { LogFormat::Pretty { color: terminal } } else { LogFormat::Json },
        content: settings.log.content,
        redact: reading.redaction.clone(),
        out,
        clock: Arc::new(SystemClock),
        extra: layer,
        kept: Some(reading.lines.clone()),
    };
    let lines = telemetry::init(options).map_err(|error| eprintln!("{error}"))?;
    for warning in loaded.warnings.iter().chain(&warning) {
        tracing::warn!(event = "config.warning", warning, "configuration");
    }
    Ok(Log { _lines: lines, traces })
}

/// What must never be shown.
pub(super) fn secrets(settings: &Settings) -> Vec<SecretString> {
    let mut secrets = settings.http.api_keys.clone();
    secrets.extend(settings.discord.token.clone());
    secrets.extend(settings.llm.key.clone());
    secrets.extend(settings.redis.password.clone());
    // Of an address only the login is secret: where it leads has to be seen when something is wrong.
    let addresses = settings.redis.address().into_iter().chain(settings.tools.nats_url.clone());
    secrets.extend(addresses.flat_map(|address| settings::address::secrets_of_address(&address)));
    secrets.extend(settings.telemetry.headers.clone());
    secrets
}

/// What a start needs, with the real clock, dice and metrics.
pub(super) fn launch(loaded: Loaded, reading: Reading, page: Option<axum::Router>) -> Launch {
    let (redaction, lines) = (reading.redaction.clone(), reading.lines.clone());
    let watched = reading.watched(&loaded.settings);
    let Configured { settings, lookup, redaction } = configured(loaded, redaction);
    let metrics: Arc<dyn Fn() -> String + Send + Sync> = match telemetry::metrics::install() {
        Ok(metrics) => {
            // Nobody may ever read the page; what is measured must not pile up until then. It ends with the process.
            let kept = metrics.clone();
            tokio::spawn(async move { kept.upkeep(CancellationToken::new()).await });
            Arc::new(move || metrics.render())
        }
        Err(error) => {
            tracing::error!(event = "metrics.unavailable", error, "metrics cannot be collected");
            Arc::new(String::new)
        }
    };
    Launch {
        settings,
        lookup,
        redaction,
        reread: Some(watched),
        clock: Arc::new(SystemClock),
        dice: Arc::new(SystemDice),
        faults: Arc::new(NoFaults),
        alone: false,
        page,
        metrics,
        logged: Arc::new(lines),
    }
}

/// Says why a start failed, and gives the exit code for it.
pub(super) fn not_started(error: &StartError) -> u8 {
    eprintln!("{error}");
    match error {
        StartError::Configuration(_) => exit::USAGE,
        StartError::InUse(_) => exit::IN_USE,
        StartError::Tree(_) => exit::GAVE_UP,
    }
}

/// Starts, calls `started` with the address of the pages once they can be reached, serves, drains; a second signal ends it at once.
pub(super) async fn serve(launch: Launch, started: impl AsyncFnOnce(SocketAddr)) -> u8 {
    let mut ends = match Ends::listen() {
        Ok(ends) => ends,
        Err(error) => {
            eprintln!("signals cannot be handled: {error}");
            return exit::GAVE_UP;
        }
    };
    // Without a handler for it, SIGHUP would end the process.
    let Ok(hangups) = Hangups::listen() else { return exit::GAVE_UP };
    let mut app = match App::start(launch).await {
        Ok(app) => app,
        Err(error) => {
            return not_started(&error);
        }
    };
    let _hangups = hangups.each(app.reload());
    let address = app.address();
    let begun = async {
        if let Some(address) = address.await {
            started(address).await;
        }
        std::future::pending::<Infallible>().await
    };
    let ended = tokio::select! {
        ended = app.serve(ends.next()) => ended,
        never = begun => match never {},
    };
    match ended {
        Ended::Told => {
            tokio::select! {
                _ = app.drain() => {}
                () = ends.next() => tracing::warn!(event = "drain.finished", finished = false, "stopped at once"),
            }
            exit::FINE
        }
        Ended::GaveUp => {
            app.store.close(STORE_WITHIN).await;
            eprintln!("the root supervisor gave up; the log names the actor that kept failing");
            exit::GAVE_UP
        }
        Ended::Refused(reason) => {
            eprintln!("{reason}");
            app.stop().await;
            exit::REFUSED
        }
    }
}
