//! `staffai playground`: the whole tree against a local service that speaks Discord's protocol, with a page and, unless a model
//! is configured, a demo model. Nothing leaves this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::assemble::Launch;
use super::commands::{self, Reading};
use super::demo::{Demo, NoDemo};
use super::system::{self, SystemClock};
use super::{Cli, exit};
use crate::config::Loaded;
use crate::config::sources::Sources;
use crate::config::triggers::Triggers;
use crate::domain::tool::ServerName;
use crate::playground::chaos::{Chaos, Spells};
use crate::playground::page::Breaking;
use crate::playground::service::{Options, Service};
use crate::playground::{example_server, page};
use crate::ports::Clock;
use crate::ports::tools::{Command, ServerEntry, Transport};

/// How long the demo model pretends to think.
const THINKING: Duration = Duration::from_millis(400);

/// How long the address waits for the bot to be connected before it is told.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// Runs the playground.
pub async fn run(cli: &Cli) -> u8 {
    let mut reading = Reading::new(cli, Sources::for_playground);
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    let Ok(log) = commands::log(&loaded, &reading) else { return exit::USAGE };
    // Without its page a playground is of no use, so this is no matter for later tries.
    if let Err(error) = std::net::TcpListener::bind(loaded.settings.http.addr) {
        let address = loaded.settings.http.addr;
        eprintln!("the page cannot be served at {address}: {error}; set STAFFAI_HTTP_ADDR to a free address");
        return exit::USAGE;
    }
    let token = system::random_token();
    let mut options = Options::new(Arc::new(|| SystemClock.now().0));
    token.expose_secret().clone_into(&mut options.token);
    reading.redaction.add(std::slice::from_ref(&token));
    let service = match Service::start(options).await {
        Ok(service) => service,
        Err(error) => {
            eprintln!("the local Discord service cannot start: {error}");
            return exit::GAVE_UP;
        }
    };
    let spells = Spells::new(Arc::new(|| SystemClock.now().0));
    let demo = match demo(&loaded, &spells).await {
        Ok(demo) => demo,
        Err(NoDemo(why, code)) => {
            eprintln!("{why}");
            return code;
        }
    };
    let owners: Vec<String> = service.guilds().iter().map(|guild| guild.owner.to_string()).collect();
    let api_url = service.api_url();
    let with_demo = demo.as_ref().map(Demo::configure);
    reading.adapt = Arc::new(move |settings| {
        settings.telemetry.endpoint = None;
        // Their targets are places of the real platforms.
        settings.triggers = Triggers::default();
        settings.tools.brought = vec![example()];
        settings.discord.api_url.clone_from(&api_url);
        settings.discord.token = Some(token.clone());
        if settings.discord.operators.is_empty() {
            settings.discord.operators.clone_from(&owners);
        }
        if let Some(configure) = &with_demo {
            configure(settings);
        }
    });
    let Ok(loaded) = reading.load() else { return exit::USAGE };
    let answers = if demo.is_some() {
        "answers come from a demo model; everything stays on this machine"
    } else {
        "answers come from the configured model; everything else stays on this machine"
    };
    // Standard output is the log's alone. Whoever reads along in a terminal finds the address below the lines of the start.
    let connected = service.clone();
    let say = async move |address| {
        let _ = tokio::time::timeout(CONNECTS_WITHIN, connected.connected(0)).await;
        eprintln!("{answers}; stop with Ctrl-C\nplayground: http://{address}/");
    };
    let chaos = Chaos::new(service.faults().clone(), spells, demo.is_some());
    let breaking = Breaking { chaos: Arc::clone(&chaos), token: system::random_token() };
    let page = page::router(service.clone(), breaking);
    let launch = Launch { faults: chaos, ..commands::launch(loaded, reading, Some(page)) };
    let code = commands::serve(launch, say).await;
    service.stop().await;
    if let Some(demo) = demo {
        demo.stop().await;
    }
    log.close().await;
    code
}

/// The demo model, unless a model is configured.
async fn demo(loaded: &Loaded, spells: &Arc<Spells>) -> Result<Option<Demo>, NoDemo> {
    if !loaded.llm_configured() {
        let spells = Arc::clone(spells);
        return Demo::start_with(THINKING, Arc::new(move || spells.model())).await.map(Some);
    }
    if loaded.settings.llm.model.is_none() {
        let why = "a model's address is configured but no model: set LITELLM_MODEL";
        return Err(NoDemo(why.to_owned(), exit::USAGE));
    }
    Ok(None)
}

/// The example of a tool server: this program once more. What it says of its own tools is believed.
fn example() -> ServerEntry {
    let command = Command {
        // Whatever became of the program's file since its start.
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
