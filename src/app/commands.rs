//! The commands of the program.

mod own_service;

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod migrate;
pub(crate) mod model;
mod operating;
pub(crate) mod reading;
pub(crate) mod replay;
pub(crate) mod tools;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::log::{Log, LogTo, log};
use self::own_service::ask_health;
use self::reading::{Reading, configured, lookup, print_problems};
use crate::app::assemble::{Launch, StartError};
use crate::app::signals::{Ends, Hangups};
use crate::app::system::{SystemClock, SystemDice};
use crate::app::{App, Cli, Ended, exit};
use actors::tree;
use documents::process::DocumentReader;
use ports::NoFaults;
use settings::{Examined, Loaded, Settings, show};
use telemetry::events::{DRAIN_FINISHED, METRICS_UNAVAILABLE, SERVICE_STARTED};

/// Runs the service.
pub fn run(cli: &Cli) -> u8 {
    let reading = Reading::new(cli, |sources| sources).needing(Settings::require_for_run);
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    crate::app::on_threads(loaded.settings.runtime.threads, async {
        let Ok(log) = log(&loaded, &reading, LogTo::Stdout) else { return exit::USAGE };
        let code = serve(launch(loaded, reading, &log), async |address| {
            tracing::info!(event = SERVICE_STARTED, %address, "the pages are at http://{address}/");
        })
        .await;
        log.close().await;
        code
    })
}

/// Prints the health of the running service.
pub async fn health(cli: &Cli) -> u8 {
    // Only the address matters here: a mistake elsewhere must not make a container restart a healthy service.
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

/// Prints the supervision tree.
pub fn tree(markdown: bool) -> u8 {
    say!("{}", if markdown { tree::markdown() } else { tree::text() }.trim_end());
    exit::FINE
}

/// Prints the effective configuration and its problems.
pub fn config(cli: &Cli) -> u8 {
    let Examined { loaded, problems, warnings } = Reading::new(cli, |sources| sources).examine();
    reading::print_warnings(&warnings);
    print_problems(&problems);
    for show::ConfigRow { key, value, origin } in loaded.iter().flat_map(show::table) {
        say!("{key} = {value}  # {origin}");
    }
    let rows = loaded.iter().map(|loaded| model::described(&loaded.settings, &lookup(loaded)));
    // `staffai check` reports the mistakes in the files of rows.
    for (key, what, origin) in rows.flat_map(Result::unwrap_or_default) {
        say!("model row {key} = {what}  # {origin}");
    }
    if problems.is_empty() { exit::FINE } else { exit::USAGE }
}

/// Returns the inputs of a start, with the real clock, random source and metrics.
pub(crate) fn launch(loaded: Loaded, reading: Reading, log: &Log) -> Launch {
    let (redaction, lines) = (reading.redaction.clone(), reading.lines.clone());
    let watched = reading.watched(&loaded.settings);
    let configured = configured(loaded, redaction);
    let metrics: Arc<dyn Fn() -> String + Send + Sync> = match telemetry::metrics::install() {
        Ok(metrics) => {
            // The page may never be read; this task bounds the measurements that accumulate until then. It ends with
            // the process.
            let kept = metrics.clone();
            tokio::spawn(async move { kept.upkeep(CancellationToken::new()).await });
            Arc::new(move || metrics.render())
        }
        Err(error) => {
            tracing::error!(event = METRICS_UNAVAILABLE, error, "metrics cannot be collected");
            Arc::new(String::new)
        }
    };
    Launch {
        configured,
        reread: Some(watched),
        clock: Arc::new(SystemClock),
        dice: Arc::new(SystemDice),
        faults: Arc::new(NoFaults),
        documents: Arc::new(DocumentReader::own()),
        alone: false,
        observers: log.observers.clone(),
        metrics,
        tally: Arc::clone(&log.tally),
        logged: Arc::new(lines),
        stop: CancellationToken::new(),
    }
}

/// Prints why a start failed and returns the exit code.
pub(crate) fn not_started(error: &StartError) -> u8 {
    if *error != StartError::Stopped {
        eprintln!("{error}");
    }
    match error {
        StartError::Stopped => exit::FINE,
        StartError::Configuration(_) => exit::USAGE,
        StartError::InUse(_) => exit::IN_USE,
        StartError::Tree(_) => exit::GAVE_UP,
    }
}

/// Starts, calls `started` with the address of the pages once they are reachable, serves, and drains. A second signal
/// ends the process at once.
pub(crate) async fn serve(launch: Launch, started: impl AsyncFnOnce(SocketAddr)) -> u8 {
    let mut ends = match Ends::listen() {
        Ok(ends) => ends,
        Err(error) => {
            eprintln!("signals cannot be handled: {error}");
            return exit::GAVE_UP;
        }
    };
    // Without a handler for it, SIGHUP would end the process.
    let Ok(hangups) = Hangups::listen() else { return exit::GAVE_UP };
    let (stop, mut told) = (launch.stop.clone(), false);
    let mut start = Box::pin(App::start(launch));
    let start = loop {
        tokio::select! {
            app = &mut start => break app,
            () = ends.next() => {
                if std::mem::replace(&mut told, true) {
                    return exit::FINE;
                }
                stop.cancel();
            }
        }
    };
    let mut app = match start {
        Ok(app) => app,
        Err(error) => return not_started(&error),
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
        ended = app.serve(async { if !told { ends.next().await } }) => ended,
        never = begun => match never {},
    };
    match ended {
        Ended::StopRequested => {
            tokio::select! {
                _ = app.drain() => {}
                () = ends.next() => tracing::warn!(event = DRAIN_FINISHED, finished = false, "stopped at once"),
            }
            exit::FINE
        }
        Ended::GaveUp => {
            app.close().await;
            eprintln!("the root supervisor gave up; the log names the actor that kept failing");
            exit::GAVE_UP
        }
        Ended::Superseded(reason) => {
            eprintln!("{reason}; a new start stands by");
            tokio::select! {
                () = app.give_way(&reason) => exit::IN_USE,
                () = ends.next() => exit::FINE,
            }
        }
        Ended::Refused(reason) => {
            eprintln!("{reason}");
            app.stop().await;
            exit::REFUSED
        }
    }
}
