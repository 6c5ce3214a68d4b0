//! Which addresses may be dialled. Both libraries panic or follow blindly when they get an address that they did not
//! expect, so every address is checked here first, those that Discord sends included.

use domain::host::is_loopback;
use http::Uri;

use super::BadAccess;

/// Checks the address of the request API and takes the slash from its end.
///
/// # Errors
/// It is no `https` address (`http` on this machine, or anywhere when `allow_insecure`).
pub(super) fn api(address: &str, allow_insecure: bool) -> Result<String, BadAccess> {
    checked(address, ["https", "http"], allow_insecure)
}

/// Checks an address of the gateway and takes the slash from its end, because the gateway library adds one.
///
/// # Errors
/// It is no `wss` address (`ws` on this machine, or anywhere when `allow_insecure`).
pub(super) fn gateway(address: &str, allow_insecure: bool) -> Result<String, BadAccess> {
    checked(address, ["wss", "ws"], allow_insecure)
}

fn checked(address: &str, [safe, plain]: [&str; 2], allow_insecure: bool) -> Result<String, BadAccess> {
    let bad = |reason| BadAccess::Address { address: address.chars().take(200).collect(), reason };
    if address.contains(['?', '#', '@']) || address.contains(char::is_whitespace) {
        return Err(bad("it has a query, a fragment, a user or white space"));
    }
    let base = address.trim_end_matches('/');
    // The same parser as the gateway library, on the very text that the library will build.
    let uri: Uri = format!("{base}/?v=10").parse().map_err(|_| bad("it is not an address"))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("it has no host"))?;
    let port = uri.authority().is_some_and(|whole| whole.as_str().len() > host.len());
    if port && uri.port_u16().is_none() {
        return Err(bad("it has a port that is none"));
    }
    match uri.scheme_str() {
        Some(scheme) if scheme == safe => Ok(base.to_owned()),
        Some(scheme) if scheme == plain && (allow_insecure || is_loopback(host)) => Ok(base.to_owned()),
        Some(scheme) if scheme == plain => Err(bad("it is not encrypted and not on this machine")),
        _ => Err(bad("it has the wrong scheme")),
    }
}

/// Whether an address that was checked leads to this machine.
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
