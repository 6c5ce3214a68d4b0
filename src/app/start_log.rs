//! The first line of a log: a summary of the start.

use domain::ids::Door;
use settings::Settings;
use settings::address;
use settings::stores::StoreChoice;
use telemetry::events::PROGRAM_STARTED;

/// The fields of that line.
pub struct StartFields {
    model: Option<String>,
    store: String,
    address: String,
}

impl StartFields {
    /// Returns the fields for a start with these settings.
    pub fn of(settings: &Settings) -> Self {
        Self { model: settings.llm.model.clone(), store: store(settings), address: settings.http.addr.to_string() }
    }

    /// Logs the line, with the version of the configuration in force and the open doors.
    pub fn tell(&self, configuration: &str, doors: &[Door]) {
        let Self { model, store, address } = self;
        let doors = doors.iter().map(Door::as_str).collect::<Vec<_>>().join(", ");
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(
            event = PROGRAM_STARTED,
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

/// Returns the location of the store, without a login.
fn store(settings: &Settings) -> String {
    use secrecy::ExposeSecret;
    match settings.chosen_store() {
        StoreChoice::Redis(address) => address::shown_address(address.expose_secret()),
        StoreChoice::Embedded(dir) => format!("embedded in {}", dir.display()),
    }
}
