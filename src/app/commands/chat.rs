//! `staffai chat`: a conversation in the terminal, with the running service if it answers, else with a tree of its own.

use std::io::{IsTerminal, Read as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use secrecy::ExposeSecret as _;
use tokio::time::{Instant, sleep};

use crate::app::commands;
use crate::app::commands::log;
use crate::app::commands::own_service;
use crate::app::commands::reading::Reading;
use crate::app::demo::{Demo, NoDemo};
use crate::app::signals::Ends;
use crate::app::system::SystemClock;
use crate::app::unlisted::Unlisted;
use crate::app::{App, Cli, exit, servers};
use domain::attachment::Pixels;
use domain::document::Container;
use ports::Clock;
use settings::Loaded;
use settings::sources::Variables;
use settings::triggers::Triggers;
use store::embedded::opener::Opener;
use store::{Backend, OpenError};
use terminal::client::{Client, Manner};
use terminal::routes::SubmittedFile;

/// The timeout for the listener of the command's own service.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a script's question for the first connection of the configured tool servers.
const TOOLS_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout for the tools of a connected server to be offered.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval between checks of the servers.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The interval between progress lines about pending servers.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// The maximum number of concurrent conversations without a service in one data directory.
const CHATS_MAX: usize = 8;
/// The hint for the person at the terminal.
const HINT: &str =
    "/help lists the commands, Alt-Enter starts a new line, Ctrl-R searches, Ctrl-C cancels an answer, /quit quits";
/// The maximum bytes of text on standard input that are attached to a question.
const INPUT_MAX: usize = 28 * 1024;
/// The maximum bytes of a document or picture on standard input.
const FILE_MAX: u64 = 5 << 20;
/// The name of such a file.
const INPUT_NAME: &str = "standard input";
/// The delay of each answer of the demo model.
const THINKING: Duration = Duration::from_millis(200);

/// The question and the session.
#[derive(Debug, Clone, Args)]
pub(crate) struct Of {
    /// Asks one question, prints only the answer, and exits with 0, or with 1 if there is no answer. Standard input is
    /// attached: text, a document or a picture.
    #[arg(long, value_name = "QUESTION")]
    once: Option<String>,
    /// The name or number of the session. Default: a new session.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The profile of prompts for all answers. Default: the profile of the door.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

impl Of {
    /// Prints a progress line, unless the output is a script's, which holds only answers.
    fn tell(&self, word: &str) {
        if self.with_person() {
            say!("{word}");
        }
    }

    /// Prints a warning; for a script, to standard error, separate from the answers.
    fn warn(&self, word: &str) {
        if self.with_person() { say!("{word}") } else { eprintln!("{word}") }
    }

    /// True if a person types and reads.
    fn with_person(&self) -> bool {
        self.once.is_none() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Returns the terminal's mode. The person's input history is kept in the user's state directory.
    fn manner(&self, variables: &Variables) -> Manner {
        let set = |name: &str| variables.get(name).map(|value| value.expose_secret().to_owned());
        let person = self.with_person();
        let state = set("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let state = state.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/state")));
        Manner {
            person,
            colors: person && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
            history: state.map(|folder| folder.join("staffai").join("chat_history")),
        }
    }
}

/// Runs the conversation until the input ends.
pub async fn run(cli: &Cli, of: &Of) -> u8 {
    let mut reading = Reading::new(cli, |sources| sources);
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    let address = own_service::reachable(loaded.settings.http.addr);
    if own_service::ask_health(loaded.settings.http.addr).await.is_ok() {
        return with_service(&loaded, address, of).await;
    }
    let demo = match demo_for(&loaded).await {
        Ok(demo) => demo,
        Err(NoDemo(why, code)) => {
            eprintln!("{why}");
            return code;
        }
    };
    let with_demo = demo.as_ref().map(Demo::configure);
    let Some(folder) = lone_folder(loaded.settings.store.dir.join("chat")).await else {
        eprintln!("{CHATS_MAX} conversations without a service run here already");
        return exit::IN_USE;
    };
    let elsewhere = loaded.settings.chosen_store().is_shared();
    let kept = folder.display().to_string();
    reading.adapt = Arc::new(move |settings| {
        settings.http.addr = SocketAddr::from(([127, 0, 0, 1], 0));
        settings.http.health_addr = None;
        settings.http.listeners.clear();
        // Open turns of a service in the same directory do not belong to this conversation.
        settings.store.dir.clone_from(&folder);
        (settings.redis.url, settings.redis.host) = (None, None);
        // Only a service runs triggers.
        settings.triggers = Triggers::default();
        // Log lines would mix with the conversation.
        "error".clone_into(&mut settings.log.level);
        if let Some(configure) = &with_demo {
            configure(settings);
        }
    });
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    if loaded.settings.llm.model.is_none() {
        eprintln!("a model's address is configured but no model: set LITELLM_MODEL");
        return exit::USAGE;
    }
    let Ok(log) = log::log(&loaded, &reading, log::LogTo::Stdout) else { return exit::USAGE };
    let mut launch = commands::launch(loaded.clone(), reading, &log);
    launch.alone = true;
    let app = match App::start(launch).await {
        Ok(app) => app,
        Err(error) => return commands::not_started(&error),
    };
    let code = match tokio::time::timeout(LISTEN_TIMEOUT, app.address()).await {
        Ok(Some(address)) => {
            of.warn(&format!("no service runs here, so this command starts its own, with {}", named(demo.as_ref())));
            if elsewhere {
                of.tell(&format!("the conversation is stored in {kept}; the settings of Redis are ignored here"));
            }
            of.tell(HINT);
            wait_for_tools(&app, of).await;
            talk_until_told(&loaded, address, of).await
        }
        Ok(None) | Err(_) => {
            eprintln!("the service's listener did not come up");
            exit::GAVE_UP
        }
    };
    app.stop().await;
    if let Some(demo) = demo {
        demo.stop().await;
    }
    code
}

/// Talks to the running service.
async fn with_service(loaded: &Loaded, address: SocketAddr, of: &Of) -> u8 {
    if !loaded.settings.http.api_keys.is_empty() && !is_own(address.ip()) {
        eprintln!("the service at http://{address}/ is on another machine, and the key would go there unencrypted");
        return exit::NEGATIVE;
    }
    of.tell(&format!("talking to the service at http://{address}/\n{HINT}"));
    talk_until_told(loaded, address, of).await
}

/// Waits until the tools of the configured servers are known, and prints the pending servers to standard error.
/// Otherwise, a script's question would be answered without them.
async fn wait_for_tools(app: &App, of: &Of) {
    if of.with_person() {
        return;
    }
    let begun = Instant::now();
    let (mut arrived, mut tell) = (begun, begun + TELL_EVERY);
    loop {
        let Unlisted { starting, arriving } = app.unlisted();
        let now = Instant::now();
        if !starting.is_empty() {
            arrived = now;
        }
        if starting.is_empty() && (!arriving || now >= arrived + LIST_TIMEOUT) {
            return;
        }
        let servers = servers::names(starting.iter().map(String::as_str));
        if now >= begun + TOOLS_TIMEOUT {
            return eprintln!("answering without the tools of {servers}");
        }
        if now >= tell && !starting.is_empty() {
            eprintln!("waiting for the tools of {servers}");
            tell = now + TELL_EVERY;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Talks until the input ends or a signal arrives, so that the command's own service ends in order.
async fn talk_until_told(loaded: &Loaded, address: SocketAddr, of: &Of) -> u8 {
    tokio::select! {
        code = talk(loaded, address, of) => code,
        // The script's question has no answer.
        () = told_to_end(of) => if of.once.is_some() { exit::NEGATIVE } else { exit::FINE },
    }
}

/// Waits for a signal to end. For a person, Ctrl-C stops the answer instead. Without signal handlers, the system ends
/// the process.
async fn told_to_end(of: &Of) {
    match if of.with_person() { Ends::listen_without_interrupts() } else { Ends::listen() } {
        Ok(mut ends) => ends.next().await,
        Err(_) => std::future::pending().await,
    }
}

/// Starts the demo model if no model is configured.
async fn demo_for(loaded: &Loaded) -> Result<Option<Demo>, NoDemo> {
    if loaded.llm_configured() || loaded.settings.llm.model.is_some() {
        return Ok(None);
    }
    Demo::start(THINKING).await.map(Some)
}

/// Returns the name of the model, for the person at the terminal.
const fn named(demo: Option<&Demo>) -> &'static str {
    match demo {
        Some(_) => "a demo model; set LITELLM_API_URL and LITELLM_MODEL for a real one",
        None => "the configured model",
    }
}

/// True if data sent to this address stays on this machine.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Returns the first folder for a conversation without a service that no other one uses. Each folder has its own
/// memory.
async fn lone_folder(first: PathBuf) -> Option<PathBuf> {
    for number in 1..=CHATS_MAX {
        let folder = if number == 1 { first.clone() } else { first.with_file_name(format!("chat-{number}")) };
        let opener = Opener::new(folder.clone(), Arc::new(SystemClock));
        match tokio::task::spawn_blocking(move || opener.open()).await {
            Ok(Err(OpenError::InUse(_))) => {}
            Ok(Ok(store)) => {
                store.close().await;
                return Some(folder);
            }
            // The start reports the problem.
            Ok(Err(OpenError::Failed(_) | OpenError::Later(_))) | Err(_) => return Some(folder),
        }
    }
    None
}

async fn talk(loaded: &Loaded, address: SocketAddr, of: &Of) -> u8 {
    let mut out = std::io::stdout();
    let session = of.session.clone().unwrap_or_else(|| format!("cli-{}", SystemClock.now().0));
    let key = loaded.settings.http.api_keys.first().cloned();
    let manner = of.manner(&loaded.variables);
    let result = async {
        let mut client = Client::new(format!("http://{address}"), key, session, manner)?;
        if let Some(profile) = &of.profile {
            client.choose(profile.clone()).await?;
        }
        match &of.once {
            None => client.talk(&mut out).await,
            Some(question) => {
                let (question, files) = with_input(question).await?;
                client.once(&question, files, &mut out).await
            }
        }
    };
    match result.await {
        Ok(true) => exit::FINE,
        Ok(false) => exit::NEGATIVE,
        Err(error) => {
            eprintln!("{error}");
            exit::NEGATIVE
        }
    }
}

/// Returns the question with standard input attached: a text in its words, a document or picture as a file.
async fn with_input(question: &str) -> Result<(String, Vec<SubmittedFile>), String> {
    if std::io::stdin().is_terminal() {
        return Ok((question.to_owned(), Vec::new()));
    }
    let read = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        std::io::stdin().take(FILE_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = read.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let too_long =
        |most: u64| format!("the standard input has more than the {most} bytes that are attached; send less of it");
    if bytes.len() as u64 > FILE_MAX {
        return Err(too_long(FILE_MAX));
    }
    if let Some(media_type) = kind_of(&bytes) {
        let file = SubmittedFile { name: INPUT_NAME.to_owned(), media_type: Some(media_type.to_owned()), data: bytes };
        return Ok((question.to_owned(), vec![file]));
    }
    if bytes.len() > INPUT_MAX {
        return Err(too_long(INPUT_MAX as u64));
    }
    let no_text = |_| "the standard input is neither text nor a document or picture that is read".to_owned();
    let input = String::from_utf8(bytes).map_err(no_text)?;
    let input = input.trim_end();
    let asked = if input.is_empty() { question.to_owned() } else { format!("{question}\n\n```\n{input}\n```") };
    Ok((asked, Vec::new()))
}

/// Returns the media type of a document or picture; `None` for other content. The reader of a document decides by its
/// bytes which one it is.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match Container::of_text(bytes) {
        Some(Container::Pdf) => Some("application/pdf"),
        Some(Container::Zip) => Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        Some(Container::Compound) => Some("application/vnd.ms-excel"),
        None => Pixels::of(bytes).ok().map(|pixels| pixels.mime),
    }
}
