//! The bot of the playground: the whole tree in a separate process, so that it can be killed.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::link::{Birth, BotReport, Heard, Link, Order, Says, WorkspaceAccount};
use super::log_to;
use crate::app::assemble::Launch;
use crate::app::commands;
use crate::app::commands::log;
use crate::app::commands::reading::Reading;
use crate::app::system::SystemClock;
use crate::app::{Cli, exit};
use domain::tool::ServerName;
use playground::bot_process::Choice;
use playground::bot_process::{BotOrder, Counted};
use playground::chaos::Strikes;
use playground::demo_model::{MODEL, SPARE};
use playground::example_server;
use ports::Clock;
use ports::samples::Counters;
use ports::tools::{Command, ServerEntry, Transport};
use settings::Settings;
use settings::edges::Slack;
use settings::sources::Sources;
use settings::speech::{Ear, Voice};
use settings::triggers::Triggers;
use telemetry::events::{CONFIG_REJECTED, PLAYGROUND_BOT_ENDED};
use telemetry::tally::Tally;

/// The interval between reports of the counters.
const COUNTED: Duration = Duration::from_millis(500);
/// The circuit breaker's pause for the demo model: short, as the demo model is stopped only to show the failure and the
/// recovery.
const DEMO_RESTS: Duration = Duration::from_secs(2);
/// The capacity of the queue of messages to the playground.
const SAID: usize = 64;

/// Runs the bot. Only the playground starts it, as the peer of its standard input.
pub async fn run(cli: &Cli, verbose: bool) -> u8 {
    let Some((mut link, birth)) = born().await else {
        eprintln!("this is a part of staffai playground, which starts it");
        return exit::USAGE;
    };
    let mut reading = Reading::new(cli, Sources::for_playground);
    let WorkspaceAccount { bot_token, app_token, .. } = birth.workspace.clone();
    reading.redaction.add(&[birth.token.clone().into(), bot_token.into(), app_token.into()]);
    let model = Arc::new(Mutex::new(birth.model.clone()));
    let asked = Arc::clone(&model);
    reading.adapt = Arc::new(move |settings| {
        adapt(settings, &birth);
        if let Some(Choice { url, model }) = asked.lock().clone() {
            // A key belongs to the address that it was set with.
            (settings.llm.url, settings.llm.model, settings.llm.key) = (url, Some(model), None);
            // The demo model never answers under the name of a real model.
            settings.llm.brought.clear();
        }
    });
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    let Some(to) = log_to(&loaded.settings, verbose) else { return exit::USAGE };
    let Ok(log) = log::log(&loaded, &reading, to) else { return exit::USAGE };
    let strikes = Strikes::new(Arc::new(|| SystemClock.now().0));
    let launch = Launch { faults: Arc::clone(&strikes) as _, ..commands::launch(loaded, reading, &log) };
    let (say, said) = mpsc::channel(SAID);
    let (orders, counts) = (say.clone(), say.clone());
    tokio::spawn(write(link.says, said));
    tokio::spawn(async move { listen(&mut link.heard, &strikes, &model, &orders).await });
    tokio::spawn(count(Arc::clone(&launch.tally), counts));
    let code = commands::serve(launch, async move |address| {
        // The send fails if the playground has ended, which ends this process.
        let _ = say.send(BotReport::Listens(address)).await;
    })
    .await;
    log.close().await;
    code
}

async fn born() -> Option<(Link, Birth)> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    let mut link = Link::of(UnixStream::from(stdin)).ok()?;
    let birth = link.heard.next().await?;
    Some((link, birth))
}

fn adapt(settings: &mut Settings, birth: &Birth) {
    settings.telemetry.endpoint = None;
    // Their targets are places of real platforms.
    settings.triggers = Triggers::default();
    // The page links each answer to its turn.
    settings.log.messages = true;
    settings.tools.brought = vec![example()];
    if settings.speech.voices.is_empty() {
        let command = ["espeak-ng", "--stdin", "--stdout"];
        settings.speech.voices.extend(installed(&command).map(Voice::of_command));
    }
    if settings.speech.hearing.is_empty() {
        let command = ["pocketsphinx_continuous", "-infile", "/dev/stdin"];
        settings.speech.hearing.extend(installed(&command).map(Ear::of_command));
    }
    settings.discord.api_url.clone_from(&birth.api_url);
    settings.discord.token = Some(birth.token.clone().into());
    let WorkspaceAccount { api_url, bot_token, app_token } = birth.workspace.clone();
    settings.slack = Slack { api_url, bot_token: Some(bot_token.into()), app_token: Some(app_token.into()) };
    if settings.discord.operators.is_empty() {
        settings.discord.operators.clone_from(&birth.owners);
    }
    if let Some(url) = &birth.demo_url {
        settings.llm.url.clone_from(url);
        settings.llm.model = Some(MODEL.to_owned());
        settings.llm.rest = DEMO_RESTS;
        if let Some(spare) = &birth.spare_url {
            settings.llm.brought = rows(url, spare);
        }
    }
    // The playground listens on the configured address and forwards requests to this process.
    settings.http.addr = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    settings.http.behind = true;
}

/// Returns the model rows of the demo: the model and its fallback.
fn rows(demo: &str, spare: &str) -> Map<String, Value> {
    let able = |host: &str| json!({"host": host, "schema_with_tools": true});
    let mut first = able(demo);
    first["fallback"] = json!([SPARE]);
    let rows = [(MODEL, first), (SPARE, able(spare))];
    rows.into_iter().map(|(key, row)| (key.to_owned(), row)).collect()
}

/// Returns the entry of the example tool server: this program itself, so its descriptions of its tools are trusted.
fn example() -> ServerEntry {
    let command = Command {
        // This path stays valid if the program's file is replaced or deleted after the start.
        program: "/proc/self/exe".to_owned(),
        args: vec![example_server::COMMAND.into()],
        env: BTreeMap::new(),
        cwd: None,
    };
    ServerEntry {
        description: Some("an example that comes with the playground".to_owned()),
        trusted: true,
        ..ServerEntry::new(ServerName::new(example_server::NAME), Transport::Stdio(command))
    }
}

/// Executes orders until the playground disconnects; then it drains as on a request to end.
async fn listen(heard: &mut Heard, strikes: &Strikes, model: &Mutex<Option<Choice>>, say: &mpsc::Sender<BotReport>) {
    while let Some(Order { number, order }) = heard.next().await {
        if let BotOrder::AskModel(choice) = &order {
            model.lock().clone_from(choice);
            // SIGHUP reloads the configuration, as an operator does it.
            if kill_process(getpid(), Signal::HUP).is_err() {
                tracing::error!(event = CONFIG_REJECTED, "this process cannot be told to read its configuration again");
            }
        }
        if say.send(BotReport::Done(number, strikes.order(&order))).await.is_err() {
            break;
        }
    }
    if kill_process(getpid(), Signal::TERM).is_err() {
        tracing::error!(event = PLAYGROUND_BOT_ENDED, "the playground is gone and this process cannot be told to end");
    }
}

async fn write(mut says: Says, mut said: mpsc::Receiver<BotReport>) {
    while let Some(told) = said.recv().await {
        if says.say(&told).await.is_err() {
            return;
        }
    }
}

async fn count(tally: Arc<Tally>, say: mpsc::Sender<BotReport>) {
    let mut known = Counted::default();
    loop {
        tokio::time::sleep(COUNTED).await;
        let Counters { lost, doubled, .. } = tally.counters();
        let counted = Counted { crashes: tally.failures(), lost, doubled };
        if counted != known && say.send(BotReport::Counted(counted)).await.is_err() {
            return;
        }
        known = counted;
    }
}

/// Returns the command for speech, if its program is installed.
fn installed(command: &[&str]) -> Option<Vec<String>> {
    let is_there = |folder: &str| command.first().is_some_and(|program| Path::new(folder).join(program).is_file());
    speech::PATH.split(':').any(is_there).then(|| command.iter().map(|part| (*part).to_owned()).collect())
}
