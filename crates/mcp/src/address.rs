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
        "http" if endpoint.allow_http || is_here(&url) => Ok(url),
        "http" => Err(Failure::Address(
            "its url is http to another machine, which anybody between can read; write https, or allow_http: true"
                .to_owned(),
        )),
        other => Err(Failure::Address(format!("its url begins with {other}: instead of https:"))),
    }
}

/// True if an address can only be on this machine.
pub fn is_here(url: &Url) -> bool {
    url.host_str().is_some_and(domain::host::is_loopback)
}
