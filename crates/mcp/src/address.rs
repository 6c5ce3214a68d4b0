//! The addresses of servers over HTTP.

use reqwest::Url;

use crate::failure::Failure;
use ports::tools::Endpoint;

/// The address of an entry: `https`, or `http` where that is allowed.
///
/// # Errors
/// It is none, or it is not allowed.
pub fn address(endpoint: &Endpoint) -> Result<Url, Failure> {
    let url = Url::parse(&endpoint.url).map_err(|error| Failure::Address(format!("its url is none: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::Address("its url holds a login; write that into headers".to_owned()));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if endpoint.allow_http || is_loopback(&url) => Ok(url),
        "http" => Err(Failure::Address(
            "its url is http to another machine, which anybody between can read; write https, or allow_http: true"
                .to_owned(),
        )),
        other => Err(Failure::Address(format!("its url begins with {other}: instead of https:"))),
    }
}

/// The address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
