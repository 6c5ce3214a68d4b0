//! `staffai playground`: the whole tree against a local service that speaks Discord's protocol, with a page and, unless a model
//! is configured, a demo model. Nothing leaves this machine.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::system::SystemClock;
use super::{Cli, commands, exit};
use crate::config::sources::Sources;
use crate::playground::demo_model::DemoModel;
use crate::playground::page;
use crate::playground::service::{Options, Service};
use crate::ports::Clock;

/// How long the demo model pretends to think.
const THINKING: Duration = Duration::from_millis(400);
/// The name of the demo model's row.
const DEMO: &str = "demo";

/// Runs the playground.
pub async fn run(cli: &Cli) -> u8 {
    let Ok(mut loaded) = commands::load(cli, Sources::for_playground) else { return exit::USAGE };
    let Ok(_log) = commands::log(&loaded) else { return exit::USAGE };
    let service = match Service::start(Options::new(Arc::new(|| SystemClock.now().0))).await {
        Ok(service) => service,
        Err(error) => {
            eprintln!("the local Discord service cannot start: {error}");
            return exit::GAVE_UP;
        }
    };
    let demo = if loaded.llm_configured() { None } else { Some(DemoModel::start(THINKING).await) };
    let settings = &mut loaded.settings;
    match &demo {
        Some(Ok(demo)) => {
            settings.llm.url = demo.base_url();
            settings.llm.model = Some(DEMO.to_owned());
        }
        Some(Err(error)) => {
            eprintln!("the demo model cannot start: {error}");
            return exit::GAVE_UP;
        }
        None if settings.llm.model.is_none() => {
            eprintln!("a model's address is configured but no model: set LITELLM_MODEL");
            return exit::USAGE;
        }
        None => {}
    }
    settings.discord.api_url = service.api_url();
    settings.discord.token = Some(SecretString::from(service.token().to_owned()));
    println!("playground: http://{}/", settings.http.addr);
    let model = if demo.is_some() { "a demo model" } else { "the configured model" };
    println!("answers come from {model}; everything stays on this machine; stop with Ctrl-C");
    let page = page::router(service.clone());
    let code = commands::serve(commands::launch(&loaded, Some(page))).await;
    service.stop().await;
    if let Some(Ok(demo)) = demo {
        demo.stop().await;
    }
    code
}
