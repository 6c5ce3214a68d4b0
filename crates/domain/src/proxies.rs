//! Trusted reverse proxies, and the address of the client behind them.

use std::net::IpAddr;
use std::str::FromStr;

/// A network: all addresses with these leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// The error for a text that is not a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no address such as 10.0.0.1, and no network such as 10.0.0.0/8")]
pub struct NoNetwork;

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| NoNetwork)?;
        if bits > most { Err(NoNetwork) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    /// True if the network contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let shared = |difference: u128, width: u8| {
            let rest = u32::from(width.saturating_sub(self.bits));
            difference.checked_shr(rest).unwrap_or_default() == 0
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => shared(u128::from(own.to_bits() ^ other.to_bits()), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => shared(own.to_bits() ^ other.to_bits(), 128),
            _ => false,
        }
    }
}

/// The trusted proxies; none by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies(Vec<Network>);

impl Proxies {
    /// Creates the set of these networks.
    #[must_use]
    pub const fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// True if this address is a trusted proxy.
    #[must_use]
    pub fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address.to_canonical()))
    }

    /// Returns the client's address: that of the peer unless it is a trusted proxy, and else the last entry of
    /// `X-Forwarded-For` that is not a trusted proxy. Each proxy appends the address that its request came from, so
    /// earlier entries are the client's own claims. An entry that is not an address ends the search at the last known
    /// proxy.
    #[must_use]
    pub fn client<'a>(&self, peer: IpAddr, forwarded: impl DoubleEndedIterator<Item = &'a str>) -> IpAddr {
        let mut client = peer.to_canonical();
        for entry in forwarded.rev().flat_map(|line| line.rsplit(',')) {
            if !self.trust(client) {
                break;
            }
            let Some(before) = address(entry.trim()) else { break };
            client = before;
        }
        client
    }
}

/// Parses an address as proxies write it: alone, with a port, or in brackets.
fn address(entry: &str) -> Option<IpAddr> {
    let alone = entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let found = alone.or_else(|| entry.parse::<std::net::SocketAddr>().ok().map(|socket| socket.ip()))?;
    Some(found.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(networks: &[&str]) -> Proxies {
        Proxies::new(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn client(trusted: &[&str], peer: &str, lines: &[&str]) -> String {
        proxies(trusted).client(peer.parse().unwrap(), lines.iter().copied()).to_string()
    }

    #[test]
    fn a_network_is_its_first_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.200.1.1", "11.0.0.1"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.6"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("fd00::1", "fd00::1", "fd00::2"),
            ("0.0.0.0/0", "203.0.113.7", "::1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network:?}");
            assert!(!network.contains(outside.parse().unwrap()), "{network:?}");
        }
        for wrong in ["", "10.0.0", "10.0.0.0/33", "::/129", "proxy.example", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(wrong.parse::<Network>(), Err(NoNetwork), "{wrong}");
        }
    }

    #[test]
    fn the_client_is_the_last_entry_that_no_trusted_proxy_wrote_for_itself() {
        let trusted = ["10.0.0.0/8", "fd00::/8"];
        for (peer, lines, wanted) in [
            ("203.0.113.7", &["198.51.100.1"][..], "203.0.113.7"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1", "198.51.100.1,fd00::2"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("10.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", &["1.1.1.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ] {
            assert_eq!(client(&trusted, peer, lines), wanted, "{peer} {lines:?}");
        }
        assert_eq!(client(&[], "10.0.0.1", &["198.51.100.1"]), "10.0.0.1", "nothing is trusted by default");
    }
}
