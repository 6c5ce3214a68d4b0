//! Requests to this machine's service, at the address of the settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::header::{HeaderValue, SERVER};
use secrecy::{ExposeSecret, SecretString};

use domain::tool::server::Tooling;
use settings::Settings;
use web::api;

/// The timeout of a request to the running service.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the address at which a listener is reachable from this machine.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Returns `Ok` if this machine's service reports its health at the configured address; otherwise the reason.
pub(crate) async fn ask_health(configured: SocketAddr) -> Result<(), String> {
    ask(configured, "/healthz", None).await.map(drop)
}

/// Returns the tool servers of this machine's service, from its configured address; otherwise the reason.
pub(crate) async fn ask_tooling(settings: &Settings) -> Result<Tooling, String> {
    // The health check ensures that only the bot's own service receives the key.
    ask_health(settings.http.addr).await?;
    let answer = ask(settings.http.addr, "/api/v1/tool_servers", settings.http.api_keys.first()).await?;
    answer.json().await.map_err(|error| root_cause(&error))
}

/// Sends a request to this machine's service. Returns the reason if it does not answer.
async fn ask(configured: SocketAddr, path: &str, key: Option<&SecretString>) -> Result<reqwest::Response, String> {
    let address = reachable(configured);
    let url = format!("http://{address}{path}");
    let client = reqwest::Client::builder().timeout(HEALTH_TIMEOUT).no_proxy().build();
    let answer = match client {
        Ok(client) => {
            let request = client.get(&url);
            let key = key.map(ExposeSecret::expose_secret);
            match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            }
            .send()
            .await
        }
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) if answer.headers().get(SERVER) != Some(&HeaderValue::from_static(api::SERVER_NAME)) => {
            Err(format!("what answers at {url} is not staffai"))
        }
        Ok(answer) if answer.status().is_success() => Ok(answer),
        Ok(answer) => Err(format!("{url} answered {}", answer.status())),
        Err(error) => Err(format!("{url} cannot be reached: {}", root_cause(&error))),
    }
}

/// Returns the innermost cause of an error.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
