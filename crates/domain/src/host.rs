//! Host names and addresses in URLs.

use std::net::IpAddr;

/// True if a host can only be this machine: `localhost` or a loopback address, with or without IPv6 brackets and
/// trailing dot. IPv4-mapped IPv6 addresses count as IPv4.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = bare(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Returns a host without IPv6 brackets and trailing dot.
#[must_use]
pub fn bare(host: &str) -> &str {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_found_in_every_form() {
        for host in
            ["localhost", "LocalHost", "localhost.", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "[::ffff:127.0.0.1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
    }

    #[test]
    fn hosts_of_other_machines_are_not_this_one() {
        for host in
            ["", ".", "[", "]", "localhost.example", "127.0.0.1.example", "10.0.0.1", "0.0.0.0", "[::]", "128.0.0.1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
