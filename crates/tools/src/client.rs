//! HTTP clients for configured services.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use domain::json_values::{self, Unparsed};

/// Timeout of connecting, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of values in an answer.
const VALUES_MAX: usize = 16 * 1024;

/// The minimum length of a secret that is masked: a shorter one occurs in ordinary words.
const SECRET_LEAST: usize = 6;

/// The HTTP client of one configured service, built on first use: that reads the system's certificates.
pub(super) struct ServiceClient {
    /// True if the service is on this machine.
    here: bool,
    /// True if its address is not encrypted.
    plain: bool,
    built: OnceCell<Client>,
}

impl ServiceClient {
    /// Creates the client of the service at this address; `here`: it is on this machine. Builds nothing yet.
    pub(super) fn of(url: &Url, here: bool) -> Self {
        Self { here, plain: url.scheme() == "http", built: OnceCell::new() }
    }

    /// Returns the client.
    ///
    /// # Errors
    /// The reason why it cannot be built.
    pub(super) async fn get(&self) -> Result<&Client, String> {
        let (here, plain) = (self.here, self.plain);
        let build = || async move {
            let built = spawn_blocking(move || build(here, plain)).await;
            built.unwrap_or_else(|_| Err("the HTTP client cannot be created".to_owned()))
        };
        self.built.get_or_try_init(build).await
    }
}

/// Builds a client for one address: `here` (this machine) uses no proxy, `plain` (http) needs no certificates. Blocks
/// while it reads the system's certificates.
///
/// # Errors
/// The reason why it cannot be built.
fn build(here: bool, plain: bool) -> Result<Client, String> {
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

/// Returns the address of a path below that of a service.
pub(super) fn below(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    let path = format!("{}{path}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// Reads the whole body, up to `most` bytes.
///
/// # Errors
/// The reason why it is not whole.
pub(super) async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
        if body.len() + piece.len() > most {
            return Err(Unparsed::TooLong(most).into());
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Parses an answer.
///
/// # Errors
/// The reason why it cannot be used.
pub(super) fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Unparsed> {
    json_values::parsed(body, VALUES_MAX)
}

/// Masks the key of a service that echoes it.
pub(super) fn masked(words: &str, key: Option<&SecretString>) -> String {
    let key = key.map(ExposeSecret::expose_secret).filter(|key| key.len() >= SECRET_LEAST);
    key.map_or_else(|| words.to_owned(), |key| words.replace(key, "***"))
}
