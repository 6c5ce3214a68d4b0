//! Addresses in settings: whether they lead away from this network, and what of them is secret.

use std::fmt::Write as _;
use std::net::IpAddr;

use secrecy::{ExposeSecret, SecretString};

use super::problem::shown;

/// Whether what is sent to this host without encryption can be read by others on its way: it is neither this machine, nor an
/// address of a private network, nor a name that only a local name server knows (one word, as services of a container
/// network have, or one that ends in `.local`, `.internal`, `.svc` or `.lan`).
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

/// Whether a port stands in the authority of an address that is none: no number from 1 to 65535.
#[must_use]
pub fn has_wrong_port(authority: &str) -> bool {
    let place = authority.rsplit('@').next().unwrap_or_default();
    // The colons of an address of the sixth version stand in brackets.
    let port = place.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// An address that may hold a password, as it may be shown: where it leads, without its login and what follows a `?`. All up to
/// the last `@` counts as login, because a password may hold any sign; of several hosts with logins the last one is seen.
#[must_use]
pub fn shown_address(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("***@", place));
    let (place, query) = place.split_once('?').map_or((place, ""), |(place, _)| (place, "?***"));
    let separator = if scheme.is_empty() { "" } else { "://" };
    shown(&format!("{scheme}{separator}{login}{place}{query}"))
}

/// The parts of an address that must never be shown: its login's password, as it is written there and as it is meant, and
/// the values of what follows a `?`. None for an address without such parts.
#[must_use]
pub fn secrets_of_address(address: &SecretString) -> Vec<SecretString> {
    let address = address.expose_secret();
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    // Of several hosts each may have a login of its own, and a name alone may be a token.
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

/// Reads `%XX`; what is no such thing stays.
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

/// Escapes what may not stand in the password of an address.
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
