//! How tools of this program ask services over HTTP that their settings name.

use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

/// How long a connection may take to stand, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client for one address: on this machine (`here`) no proxy is used, a `plain` one needs no certificates. It reads the certificates of
/// the system, so it must not be made where nothing may block.
///
/// # Errors
/// Why there is none.
pub(super) fn build(here: bool, plain: bool) -> Result<Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err("no TLS provider is installed in this process".to_owned());
    }
    let builder = Client::builder()
        .user_agent(concat!("staffai/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        // A redirect would carry the key to an address that is not configured.
        .redirect(Policy::none())
        .referer(false)
        .retry(reqwest::retry::never());
    let builder = if here { builder.no_proxy() } else { builder };
    let builder = if plain { builder.tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| error.to_string())
}
