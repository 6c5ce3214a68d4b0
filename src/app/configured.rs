//! The settings, the variables that files may name, and the secrets among them.

use std::sync::Arc;

use secrecy::SecretString;

use settings::Settings;
use telemetry::Redaction;

/// Looks up the value of a variable by name, for files that name one.
pub type Lookup = Arc<dyn Fn(&str) -> Option<SecretString> + Send + Sync>;

/// Settings, and the variables that files may name.
#[derive(Clone)]
pub struct Configured {
    /// The settings.
    pub settings: Settings,
    /// Values of variables by name.
    pub lookup: Lookup,
    /// Receives every secret before it is used.
    pub redaction: Redaction,
}

/// Rereads the configuration; each mistake is a sentence with its place and fix.
pub type Reread = Arc<dyn Fn() -> Result<Configured, Vec<String>> + Send + Sync>;

/// Returns the secrets of the settings.
pub(crate) fn secrets(settings: &Settings) -> Vec<SecretString> {
    let mut secrets = settings.http.api_keys.clone();
    secrets.extend(settings.discord.token.clone());
    secrets.extend(settings.slack.bot_token.clone());
    secrets.extend(settings.slack.app_token.clone());
    secrets.extend(settings.llm.key.clone());
    secrets.extend(settings.redis.password.clone());
    // Only the login in an address is secret: the host must be visible when there is a problem.
    let addresses = settings.chosen_store().address().into_iter().chain(settings.tools.nats_url.clone());
    secrets.extend(addresses.flat_map(|address| settings::address::secrets_of_address(&address)));
    secrets.extend(settings.telemetry.headers.clone());
    secrets
}
