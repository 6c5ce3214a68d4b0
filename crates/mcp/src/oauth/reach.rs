//! The addresses that a login may contact. A server's metadata contains addresses from outside; they must not lead into
//! this machine or its network, unless the server itself is there or the operator confirmed the origin. Names are
//! checked when they are dialled.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};
use tokio::net::lookup_host;
use tokio::time::timeout;

use domain::network::is_public;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The most addresses tried for one name.
const ADDRESSES_MAX: usize = 8;

/// The network zone of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Zone {
    Public,
    Private,
    Loopback,
    /// Other addresses: link-local, multicast, reserved.
    Special,
}

impl Zone {
    fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let private = match address {
            IpAddr::V4(v4) => v4.is_private() || matches!(v4.octets(), [100, 64..=127, ..]),
            IpAddr::V6(v6) => v6.is_unique_local(),
        };
        match address {
            _ if is_public(address) => Self::Public,
            _ if address.is_loopback() => Self::Loopback,
            _ if private => Self::Private,
            _ => Self::Special,
        }
    }
}

/// The addresses that requests may contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reach {
    /// The zone of the tool server.
    pub zone: Zone,
    /// Origins that the operator confirmed, in any zone.
    pub confirmed: Vec<String>,
}

impl Reach {
    /// Returns the rule for requests to this address.
    ///
    /// # Errors
    /// The address is not allowed.
    pub(super) fn rule(&self, url: &Url) -> Result<Rule, String> {
        let origin = url.origin().ascii_serialization();
        if self.confirmed.contains(&origin) {
            return Ok(Rule::Any);
        }
        match literal(url).map(Zone::of) {
            Some(zone) if !self.permits(zone) => Err(internal(&origin)),
            _ => Ok(Rule::Keep(self.clone())),
        }
    }

    fn permits(&self, zone: Zone) -> bool {
        zone == Zone::Public || zone == self.zone
    }
}

/// Returns the zone of a server by name lookup, for a login that was stored without one.
pub(super) async fn zone_of(url: &Url) -> Zone {
    if let Some(address) = literal(url) {
        return Zone::of(address);
    }
    let host = url.host_str().unwrap_or_default().to_owned();
    let found = timeout(LOOKUP_TIMEOUT, lookup_host((host, 0))).await;
    let zones: Vec<Zone> = found.into_iter().flatten().flatten().map(|address| Zone::of(address.ip())).collect();
    one_zone(&zones).unwrap_or(Zone::Public)
}

/// The addresses that a name may resolve to.
#[derive(Clone)]
pub(super) enum Rule {
    /// Any: the operator confirmed the origin.
    Any,
    /// Those that the login may contact.
    Keep(Reach),
    /// Any in a single zone, which is recorded: the tool server itself.
    Find(Arc<Mutex<Option<Zone>>>),
}

impl Rule {
    /// Returns the rule for the tool server; its zone is recorded when it is dialled.
    pub(super) fn find(url: &Url) -> (Self, Arc<Mutex<Option<Zone>>>) {
        let found = Arc::new(Mutex::new(literal(url).map(Zone::of)));
        (Self::Find(Arc::clone(&found)), found)
    }

    /// Returns the resolver for a client of this one address.
    pub(super) fn resolver(self, url: &Url) -> Arc<impl Resolve + use<>> {
        let origin = url.origin().ascii_serialization();
        Arc::new(Resolver { rule: self, host: url.host_str().unwrap_or_default().to_owned(), origin })
    }

    fn judge(&self, zones: &[Zone], origin: &str) -> Result<(), String> {
        match self {
            Self::Any => Ok(()),
            // One forbidden address rejects the name: no honest name is public and internal at once.
            Self::Keep(reach) if zones.iter().all(|zone| reach.permits(*zone)) => Ok(()),
            Self::Keep(_) => Err(internal(origin)),
            Self::Find(found) => {
                let zone = one_zone(zones).ok_or_else(|| format!("{origin} is public and internal at once"))?;
                *found.lock() = Some(zone);
                Ok(())
            }
        }
    }
}

struct Resolver {
    rule: Rule,
    host: String,
    origin: String,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        // Another name belongs to the operator's proxy: redirects are not followed.
        let rule = if name.as_str() == self.host { self.rule.clone() } else { Rule::Any };
        let (name, origin) = (name.as_str().to_owned(), self.origin.clone());
        Box::pin(async move {
            let found = timeout(LOOKUP_TIMEOUT, lookup_host((name, 0))).await;
            let found: Vec<SocketAddr> = found.map_err(io::Error::other)??.take(ADDRESSES_MAX).collect();
            let zones: Vec<Zone> = found.iter().map(|address| Zone::of(address.ip())).collect();
            rule.judge(&zones, &origin).map_err(io::Error::other)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn one_zone(zones: &[Zone]) -> Option<Zone> {
    let first = zones.first()?;
    zones.iter().all(|zone| zone == first).then_some(*first)
}

fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn internal(origin: &str) -> String {
    format!(
        "{origin} is an address of this machine or of a private network, where the server is not; if it is right, add --allow-origin {origin}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_addresses_are_reached_only_where_the_server_is() {
        let url = |text: &str| Url::parse(text).unwrap();
        let reaches = |zone: Zone, text: &str| {
            let reach = Reach { zone, confirmed: vec!["https://10.0.0.9".to_owned()] };
            reach.rule(&url(text)).is_ok()
        };
        for (address, at_home) in [
            ("https://127.0.0.1/token", Zone::Loopback),
            ("http://[::1]:80/", Zone::Loopback),
            ("http://[::ffff:127.0.0.1]/", Zone::Loopback),
            ("https://2130706433/", Zone::Loopback),
            ("https://10.1.2.3/", Zone::Private),
            ("https://192.168.0.1:8443/x", Zone::Private),
            ("https://100.64.0.1/", Zone::Private),
            ("https://[fd00::1]/", Zone::Private),
            ("http://169.254.169.254/latest/meta-data", Zone::Special),
            ("https://0.0.0.0/", Zone::Special),
        ] {
            for zone in [Zone::Public, Zone::Private, Zone::Loopback, Zone::Special] {
                assert_eq!(reaches(zone, address), zone == at_home, "{address} from {zone:?}");
            }
        }
        for zone in [Zone::Public, Zone::Private, Zone::Loopback] {
            assert!(reaches(zone, "https://1.1.1.1/token") && reaches(zone, "https://10.0.0.9/token"));
        }
    }

    #[tokio::test]
    async fn what_a_name_resolves_to_is_checked_when_it_is_dialled() {
        let url = Url::parse("http://localhost:1/token").unwrap();
        let resolve = |rule: Rule| {
            let url = url.clone();
            async move { rule.resolver(&url).resolve("localhost".parse().unwrap()).await.map(Iterator::count) }
        };
        let reach = |zone| Reach { zone, confirmed: Vec::new() };
        let inside = resolve(reach(Zone::Public).rule(&url).unwrap()).await.unwrap_err();
        assert!(inside.to_string().contains("--allow-origin http://localhost:1"), "{inside}");
        assert!(resolve(reach(Zone::Loopback).rule(&url).unwrap()).await.unwrap() > 0);
        let (find, found) = Rule::find(&url);
        assert!(resolve(find).await.unwrap() > 0);
        assert_eq!(*found.lock(), Some(Zone::Loopback));
        let mixed = Rule::find(&url).0.judge(&[Zone::Public, Zone::Loopback], "https://x.example");
        assert!(mixed.unwrap_err().contains("public and internal at once"));
        assert_eq!(zone_of(&url).await, Zone::Loopback);
    }
}
