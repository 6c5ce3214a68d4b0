//! HTTP clients for configured services.

use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

/// Timeout of connecting, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a client for one address: `here` (this machine) uses no proxy, `plain` (http) needs no certificates. Blocks
/// while it reads the system's certificates.
///
/// # Errors
/// The reason why it cannot be built.
pub(super) fn build(here: bool, plain: bool) -> Result<Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err("no TLS provider is installed in this process".to_owned());
    }
    let builder = Client::builder()
        .user_agent(concat!("staffai/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        // A redirect would send the key to an address that is not configured.
        .redirect(Policy::none())
        .referer(false)
        .retry(reqwest::retry::never());
    let builder = if here { builder.no_proxy() } else { builder };
    let builder = if plain { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| error.to_string())
}

/// Returns the reason for a failed request, without the address, which contains a member's words.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let what = if error.is_connect() { "it cannot be reached" } else { "the connection broke" };
    let mut cause = std::error::Error::source(error);
    let mut last = None;
    while let Some(error) = cause {
        (last, cause) = (Some(error.to_string()), error.source());
    }
    last.map_or_else(|| what.to_owned(), |last| format!("{what}: {}", last.chars().take(200).collect::<String>()))
}
