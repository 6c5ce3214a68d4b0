//! Requests to the service of this machine, at the address of the settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::header::{HeaderValue, SERVER};
use secrecy::{ExposeSecret, SecretString};

use domain::tool::server::Tooling;
use settings::Settings;
use web::api;

/// How long the running service may take to answer.
const HEALTH_WITHIN: Duration = Duration::from_secs(5);

/// Where a listener on this address can be reached from this machine.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Whether our own service answers at the configured address that it is healthy; if not, why.
pub(crate) async fn ask_health(configured: SocketAddr) -> Result<(), String> {
    ask(configured, "/healthz", None).await.map(drop)
}

/// The servers of tools of our own service, as it shows them at the configured address; if not, why.
pub(crate) async fn ask_tooling(settings: &Settings) -> Result<Tooling, String> {
    // Nobody else is told the key.
    ask_health(settings.http.addr).await?;
    let answer = ask(settings.http.addr, "/api/v1/tool_servers", settings.http.api_keys.first()).await?;
    answer.json().await.map_err(|error| root_cause(&error))
}

/// Asks our own service; why it does not answer.
async fn ask(configured: SocketAddr, path: &str, key: Option<&SecretString>) -> Result<reqwest::Response, String> {
    let address = reachable(configured);
    let url = format!("http://{address}{path}");
    let client = reqwest::Client::builder().timeout(HEALTH_WITHIN).no_proxy().build();
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

/// What an error comes down to.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
