//! The line at the start of a log: what begins here, in one look.

use super::assemble::Launch;
use crate::config::Settings;
use crate::config::address;
use crate::{discord, terminal};

/// What a start is told by.
pub struct Begun {
    model: Option<String>,
    store: String,
    doors: String,
    address: String,
}

impl Begun {
    /// What is about to begin.
    pub fn of(launch: &Launch) -> Self {
        let settings = &launch.settings;
        let platform = (!launch.alone).then(|| discord::DOOR.to_string());
        let doors: Vec<String> = platform.into_iter().chain([terminal::DOOR.to_string()]).collect();
        Self {
            model: settings.llm.model.clone(),
            store: store(settings),
            doors: doors.join(", "),
            address: settings.http.addr.to_string(),
        }
    }

    /// Says so. `configuration` is the version of what is in force.
    pub fn tell(&self, configuration: &str) {
        let Self { model, store, doors, address } = self;
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(
            event = "program.started",
            version,
            configuration,
            model,
            store,
            doors,
            address,
            "staffai {version} starts"
        );
    }
}

/// Where state is kept, without a login.
fn store(settings: &Settings) -> String {
    use secrecy::ExposeSecret;
    match settings.redis.address() {
        Some(address) => address::shown_address(address.expose_secret()),
        None => format!("embedded in {}", settings.store.dir.display()),
    }
}
