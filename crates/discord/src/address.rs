//! Validation of addresses before dialling. The HTTP and the gateway library panic on unexpected addresses or follow
//! them unchecked, so every address is checked here, including those that Discord sends.

use domain::host::is_loopback;
use http::Uri;

use super::BadAccess;

/// Checks the address of the request API and removes trailing slashes.
///
/// # Errors
/// The address is not `https` (`http` is allowed on this machine, or anywhere if `allow_insecure`).
pub(super) fn api(address: &str, allow_insecure: bool) -> Result<String, BadAccess> {
    checked(address, ["https", "http"], allow_insecure)
}

/// Checks an address of the gateway and removes trailing slashes; the gateway library adds one.
///
/// # Errors
/// The address is not `wss` (`ws` is allowed on this machine, or anywhere if `allow_insecure`).
pub(super) fn gateway(address: &str, allow_insecure: bool) -> Result<String, BadAccess> {
    checked(address, ["wss", "ws"], allow_insecure)
}

fn checked(address: &str, [safe, plain]: [&str; 2], allow_insecure: bool) -> Result<String, BadAccess> {
    let bad = |reason| BadAccess::Address { address: address.chars().take(200).collect(), reason };
    if address.contains(['?', '#', '@']) || address.contains(char::is_whitespace) {
        return Err(bad("it has a query, a fragment, a user or white space"));
    }
    let base = address.trim_end_matches('/');
    // Parses exactly the text that the gateway library will build, with the library's own parser.
    let uri: Uri = format!("{base}/?v=10").parse().map_err(|_| bad("it is not a valid address"))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("it has no host"))?;
    let port = uri.authority().is_some_and(|whole| whole.as_str().len() > host.len());
    if port && uri.port_u16().is_none() {
        return Err(bad("its port is invalid"));
    }
    match uri.scheme_str() {
        Some(scheme) if scheme == safe => Ok(base.to_owned()),
        Some(scheme) if scheme == plain && (allow_insecure || is_loopback(host)) => Ok(base.to_owned()),
        Some(scheme) if scheme == plain => Err(bad("it is not encrypted and not on this machine")),
        _ => Err(bad("it has the wrong scheme")),
    }
}

/// True if a checked address is on this machine.
pub(super) fn is_local(address: &str) -> bool {
    address.parse::<Uri>().is_ok_and(|uri| uri.host().is_some_and(is_loopback))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_addresses_lose_their_slash() {
        assert_eq!(api("https://discord.com/", false).unwrap(), "https://discord.com");
        assert_eq!(gateway("wss://gateway.discord.gg", false).unwrap(), "wss://gateway.discord.gg");
        assert_eq!(gateway("ws://127.0.0.1:9/gw/", false).unwrap(), "ws://127.0.0.1:9/gw");
        assert_eq!(gateway("ws://[::1]:9", false).unwrap(), "ws://[::1]:9");
    }

    #[test]
    fn plain_text_stays_on_this_machine() {
        for far in ["http://discord.com", "http://10.0.0.1", "http://localhost.evil.example"] {
            assert!(api(far, false).is_err(), "{far}");
            assert!(api(far, true).is_ok(), "{far}");
        }
    }

    #[test]
    fn odd_addresses_are_refused() {
        for odd in [
            "",
            "wss://",
            "wss:///",
            "https://gateway.discord.gg",
            "gateway.discord.gg",
            "wss://a b",
            "wss://u@host",
            "wss://host?x=1",
            "wss://host:port",
            "\u{0}",
            "wss://[::1",
        ] {
            assert!(gateway(odd, true).is_err(), "{odd}");
        }
    }
}
