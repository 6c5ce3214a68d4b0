//! Classification of addresses in settings, and the secrets that they contain.

use std::fmt::Write as _;
use std::net::IpAddr;

use secrecy::{ExposeSecret, SecretString};

use super::problem::shown;

/// True if unencrypted data to this host can be read in transit: it is not this machine, no address of a private
/// network, and no name that only a local name server resolves (a single word, as in container networks, or one ending
/// in `.local`, `.internal`, `.svc` or `.lan`).
#[must_use]
pub fn is_remote(host: &str) -> bool {
    let bare = domain::host::bare(host).to_ascii_lowercase();
    if let Ok(address) = bare.parse::<IpAddr>() {
        return match address.to_canonical() {
            IpAddr::V4(v4) => !(v4.is_loopback() || v4.is_private() || v4.is_link_local()),
            IpAddr::V6(v6) => !(v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local()),
        };
    }
    let inner = [".local", ".internal", ".svc", ".lan", ".localhost", ".home.arpa"];
    bare.contains('.') && !inner.iter().any(|end| bare.ends_with(end)) && !bare.contains(".svc.cluster.")
}

/// True if an authority contains an invalid port: not a number from 1 to 65535.
#[must_use]
pub fn has_wrong_port(authority: &str) -> bool {
    let place = authority.rsplit('@').next().unwrap_or_default();
    // The colons of an IPv6 address are in brackets.
    let port = place.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// Returns an address for display, without credentials and query. Everything up to the last `@` counts as credentials,
/// because a password may contain any character; of several hosts with credentials only the last one is shown.
#[must_use]
pub fn shown_address(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("***@", place));
    let (place, query) = place.split_once('?').map_or((place, ""), |(place, _)| (place, "?***"));
    let separator = if scheme.is_empty() { "" } else { "://" };
    shown(&format!("{scheme}{separator}{login}{place}{query}"))
}

/// Returns the secret parts of an address: the password, both as written and decoded, and the values of the query.
#[must_use]
pub fn secrets_of_address(address: &SecretString) -> Vec<SecretString> {
    let address = address.expose_secret();
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    // Each of several hosts may have its own credentials, and a user name alone may be a token.
    let logins = login.split(',').flat_map(|login| {
        let login = login.rsplit_once('@').map_or(login, |(login, _)| login);
        login.split_once(':').map_or(login, |(_, password)| password).split('@')
    });
    let values = place.split_once('?').map_or("", |(_, query)| query).split('&');
    let values = values.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
    let whole = login.split_once(':').map_or(login, |(_, password)| password);
    let parts = logins.chain(values).chain([whole]).filter(|part| !part.is_empty());
    let both = parts.flat_map(|part| [part.to_owned(), unescape(part)]);
    both.map(SecretString::from).collect()
}

/// Decodes `%XX`; invalid sequences are kept.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let coded = (*first == b'%').then(|| behind.get(..2)).flatten();
        let coded = coded.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Escapes characters that are invalid in the password of an address.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number_that_ports_have() {
        for right in ["host", "host:4222", "[::1]", "[::1]:4222", "me:pw@host", "me:99999@host:1"] {
            assert!(!has_wrong_port(right), "{right}");
        }
        for wrong in ["host:99999", "host:0", "host:x", "host:", "[::1]:70000", "me:1@host:65536"] {
            assert!(has_wrong_port(wrong), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_shown_without_anything_secret() {
        for (address, wanted) in [
            ("redis://db:6379/0", "redis://db:6379/0"),
            ("redis://:pa,ss/w@rd@db:6379/0", "redis://***@db:6379/0"),
            ("redis-cluster://u:p@a:1,u:p@b:2", "redis-cluster://***@b:2"),
            ("redis+unix:///run/redis.sock?pass=pw&db=1", "redis+unix:///run/redis.sock?***"),
            ("me:pw@host", "***@host"),
        ] {
            assert_eq!(shown_address(address), wanted);
        }
    }
}
