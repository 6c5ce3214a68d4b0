//! The line at the start of a log: what begins here, in one look.

use crate::app::assemble::Launch;
use domain::ids::Door;
use settings::Settings;
use settings::address;

/// What a start is told by.
pub struct Begun {
    model: Option<String>,
    store: String,
    address: String,
}

impl Begun {
    /// What is about to begin.
    pub fn of(launch: &Launch) -> Self {
        let settings = &launch.settings;
        Self { model: settings.llm.model.clone(), store: store(settings), address: settings.http.addr.to_string() }
    }

    /// Says so, with the version of the configuration in force and the doors that are open.
    pub fn tell(&self, configuration: &str, doors: &[Door]) {
        let Self { model, store, address } = self;
        let doors = doors.iter().map(Door::as_str).collect::<Vec<_>>().join(", ");
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
