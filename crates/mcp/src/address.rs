//! Addresses of HTTP servers.

use reqwest::Url;

use crate::failure::Failure;
use ports::tools::Endpoint;

/// Returns the address of an entry: `https`, or `http` where allowed.
///
/// # Errors
/// The address is invalid or not allowed.
pub fn address(endpoint: &Endpoint) -> Result<Url, Failure> {
    let url = Url::parse(&endpoint.url).map_err(|error| Failure::Address(format!("its url is invalid: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::Address("its url holds a login; write that into headers".to_owned()));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if endpoint.allow_http || is_here(&url) => Ok(url),
        "http" => Err(Failure::Address(
            "its url is http to another machine, which is not encrypted; write https, or allow_http: true".to_owned(),
        )),
        other => Err(Failure::Address(format!("its url begins with {other}: instead of https:"))),
    }
}

/// True if an address is always on this machine.
pub fn is_here(url: &Url) -> bool {
    url.host_str().is_some_and(domain::host::is_loopback)
}
