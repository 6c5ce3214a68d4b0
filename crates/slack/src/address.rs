//! Validation of addresses before dialling: those of the configuration, and those of sockets, which Slack sends.

use domain::host::is_loopback;
use http::Uri;

use super::BadAccess;

/// Checks the address of the Web API and removes trailing slashes.
///
/// # Errors
/// The address is not `https` (`http` is allowed on this machine).
pub(super) fn api(address: &str) -> Result<String, BadAccess> {
    checked(address.trim_end_matches('/'), ["https", "http"]).map(|_| address.trim_end_matches('/').to_owned())
}

/// Checks the address of a socket.
///
/// # Errors
/// The address is not `wss` (`ws` is allowed on this machine).
pub(super) fn socket(address: &str) -> Result<Uri, BadAccess> {
    checked(address, ["wss", "ws"])
}

/// True if a checked address is on this machine.
pub(super) fn is_local(address: &str) -> bool {
    address.parse::<Uri>().is_ok_and(|uri| uri.host().is_some_and(is_loopback))
}

fn checked(address: &str, [safe, plain]: [&str; 2]) -> Result<Uri, BadAccess> {
    // A socket's address carries a ticket, so an error shows only what precedes it.
    let shown = address.split(['?', '#']).next().unwrap_or_default().chars().take(200).collect();
    let bad = |reason| BadAccess::Address { address: shown, reason };
    if address.contains(['#', '@']) || address.contains(char::is_whitespace) {
        return Err(bad("it has a fragment, a user or white space"));
    }
    let Ok(uri) = address.parse::<Uri>() else { return Err(bad("it is not a valid address")) };
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else { return Err(bad("it has no host")) };
    match uri.scheme_str() {
        Some(scheme) if scheme == safe => Ok(uri),
        Some(scheme) if scheme == plain && is_loopback(host) => Ok(uri),
        Some(scheme) if scheme == plain => Err(bad("it is not encrypted and not on this machine")),
        _ => Err(bad("it has the wrong scheme")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_on_this_machine() {
        assert_eq!(api("https://slack.com/").unwrap(), "https://slack.com");
        assert_eq!(api("http://127.0.0.1:9").unwrap(), "http://127.0.0.1:9");
        assert!(api("http://slack.com").is_err() && socket("ws://slack.com/link?ticket=1").is_err());
        assert!(socket("wss://wss-primary.slack.com/link/?ticket=1").is_ok());
    }

    #[test]
    fn an_error_shows_no_ticket() {
        let error = socket("ftp://slack.com/link?ticket=secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn odd_addresses_are_refused() {
        for odd in ["", "wss://", "https://slack.com", "wss://a b", "wss://u@host", "\u{0}", "wss://[::1"] {
            assert!(socket(odd).is_err(), "{odd}");
        }
    }
}
